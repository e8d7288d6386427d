package class_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws/class"
	"karpenter/internal/control"
)

type shifter []cloud.Shift

func (s *shifter) Shifts() []cloud.Shift { return *s }

// TestAWS_5_3_PoolsAreToldOfShifts: once when a shift begins, once when it is over.
func TestAWS_5_3_PoolsAreToldOfShifts(t *testing.T) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "shifted"}}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "any"}
	create(t, pool)
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), pool) })
	events, shifts := record.NewFakeRecorder(20), &shifter{}
	r := &class.Shifts{Client: cluster.Client, Shifter: shifts, Recorder: control.NewRecorder(events, time.Now), Log: quiet}
	told := func(want string) {
		t.Helper()
		again, err := r.Check(t.Context())
		if err != nil || again <= 0 {
			t.Fatal(again, err)
		}
		var got []string
		for len(events.Events) > 0 {
			got = append(got, <-events.Events)
		}
		if text := strings.Join(got, "\n"); len(got) > 1 || !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("told %q, want %q", text, want)
		}
	}
	told("")
	*shifts = shifter{{ZoneID: "usw2-az1", Until: time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)}}
	told("Warning ZonalShiftActive The cluster is shifted away from zone usw2-az1 until 2026-08-01T13:00:00Z")
	told("")
	*shifts = nil
	told("Normal ZonalShiftCleared")
	told("")
}

type partitioner struct {
	number string
	wanted bool
	err    error
}

func (p partitioner) Partition(context.Context, *karpv1.NodeClaim) (string, bool, error) {
	return p.number, p.wanted, p.err
}

func TestL9_PartitionHook(t *testing.T) {
	for _, tt := range []struct {
		name    string
		says    partitioner
		pending bool
		label   string
		fails   bool
	}{
		{name: "no partitions"},
		{name: "not known yet", says: partitioner{wanted: true}, pending: true},
		{name: "known", says: partitioner{number: "3", wanted: true}, label: "3"},
		{name: "EC2 does not answer", says: partitioner{wanted: true, err: errors.New("throttled")}, fails: true},
	} {
		got, err := class.Partitions{Partitioner: tt.says}.Registered(t.Context(), newClaim("c", "any"))
		if (err != nil) != tt.fails || got.Pending != tt.pending || got.Labels[awsv1.LabelPlacementGroupPartition] != tt.label {
			t.Errorf("%s: %+v %v", tt.name, got, err)
		}
	}
}
