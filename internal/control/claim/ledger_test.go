package claim

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
)

func booked(name, typ string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		karpv1.NodePoolLabelKey: "general", corev1.LabelInstanceTypeStable: typ, corev1.LabelTopologyZone: "us-west-2a", karpv1.CapacityTypeLabelKey: "spot",
	}}}
}

func TestLaunchesAreKeptTogether(t *testing.T) {
	l := ledger.New(10, "p", time.Now)
	l.SetPrices(func(*karpv1.NodeClaim) float64 { return 0.05 })
	r := &Lifecycle{Ledger: l}
	none := &cloud.Error{Class: cloud.NoCapacity, Reason: "InsufficientCapacity", Op: "launch batch b", Err: errors.New("none left")}
	wrong := &cloud.Error{Class: cloud.Invalid, Reason: "InvalidAMIID", Op: "launch batch b", Err: errors.New("no such image")}
	r.recordLaunches([]answer{
		{booked("a", "m5.large"), cloud.Result{}},
		{booked("b", "m5.large"), cloud.Result{}},
		{booked("c", ""), cloud.Result{Err: none}},
		{booked("d", ""), cloud.Result{Err: none}},
		{booked("e", ""), cloud.Result{Err: wrong}},
	})
	r.recordLaunches(nil)
	var got []string
	for _, e := range l.List(ledger.Query{}) {
		got = append([]string{string(e.Kind) + " " + e.Reason + " " + string(e.Outcome) + ": " + e.Summary}, got...)
	}
	want := []string{
		"Launch Launched Done: 2 claims have instances: 2 m5.large, $0.1000/h",
		"Failure InsufficientCapacity Failed: 2 claims of pool general have no instance: launch batch b: none left; pods are planned again without it",
		"Failure InvalidAMIID Failed: claim e has no instance: launch batch b: no such image; it is tried again",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if list := l.List(ledger.Query{About: &ledger.Ref{Kind: "NodeClaim", Name: "d"}}); len(list) != 1 {
		t.Errorf("%d entries about d", len(list))
	}
}

func TestWhatIsGivenUpIsKept(t *testing.T) {
	l := ledger.New(10, "p", time.Now)
	l.SetPrices(func(*karpv1.NodeClaim) float64 { return 0.05 })
	claim := booked("a", "m5.large")
	l.Removed(claim, ledger.Removal, life.RegistrationTimeout, gaveUp(life.Registered)+": no node")
	claim.Status.NodeName = "n"
	l.Removed(claim, ledger.Removal, causeExpired, "has reached its age (expireAfter 720h) and is deleted")
	list := l.List(ledger.Query{})
	if got := list[1].Summary; got != "claim a (m5.large in us-west-2a, spot, $0.0500/h) never joined the cluster and is deleted: no node" {
		t.Error(got)
	}
	if e := list[0]; e.Summary != "node n (m5.large in us-west-2a, spot, $0.0500/h) has reached its age (expireAfter 720h) and is deleted" || e.Saves != 0.05 || e.Outcome != ledger.Done {
		t.Errorf("%+v", e)
	}
}
