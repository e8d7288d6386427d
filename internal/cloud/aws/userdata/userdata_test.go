package userdata

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var managed = []Family{AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025}

func Test1_3_EveryInstanceCarriesMarkAndTaint(t *testing.T) {
	for _, family := range managed {
		t.Run(string(family), func(t *testing.T) {
			o := basic()
			o.Labels, o.Taints = nil, nil
			got := decode(t, family, mustRender(t, family, o))
			if diff := cmp.Diff(map[string]string{"karpenter.sh/do-not-sync-taints": "true"}, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"karpenter.sh/unregistered=:NoExecute"}, got.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

func Test1_7_LabelsOfClosedDomainsAreLeftOut(t *testing.T) {
	kept := map[string]string{
		"plain": "1", "example.com/a": "1", "karpenter.k8s.aws/instance-family": "m5", "notkubernetes.io/a": "1", "topology.k8s.aws/zone-id": "1",
	}
	gone := []string{"kubernetes.io/os", "topology.kubernetes.io/zone", "node-restriction.kubernetes.io/a", "k8s.io/a", "kops.k8s.io/a", "a.node-restriction.kubernetes.io/b"}
	o := basic()
	o.Labels = map[string]string{}
	for key, value := range kept {
		o.Labels[key] = value
	}
	for _, key := range gone {
		o.Labels[key] = "1"
	}
	for _, family := range managed {
		got := decode(t, family, mustRender(t, family, o)).Labels
		delete(got, "karpenter.sh/do-not-sync-taints")
		if diff := cmp.Diff(kept, got); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", family, diff)
		}
	}
}

func Test1_7_TaintsOfOneKeyAndEffectAreGivenOnce(t *testing.T) {
	o := basic()
	o.Taints = []Taint{{"a", "1", "NoSchedule"}, {"a", "2", "NoSchedule"}, {"a", "3", "NoExecute"}, unregistered}
	want := []string{"a=1:NoSchedule", "a=3:NoExecute", "karpenter.sh/unregistered=:NoExecute"}
	for _, family := range managed {
		if diff := cmp.Diff(want, decode(t, family, mustRender(t, family, o)).Taints); diff != "" {
			t.Errorf("%s: taints (-want +got):\n%s", family, diff)
		}
	}
}

func Test1_5_KubeletSettingsReachTheKubelet(t *testing.T) {
	for _, family := range managed {
		t.Run(string(family), func(t *testing.T) {
			o := withKubelet(basic())
			if family == Bottlerocket {
				o = withBottlerocketKubelet(basic())
			}
			if diff := cmp.Diff(wantBoot(o), decode(t, family, mustRender(t, family, o))); diff != "" {
				t.Errorf("instance (-want +got):\n%s", diff)
			}
		})
	}
}

func Test1_7_WindowsVersionsShareOneFormat(t *testing.T) {
	o := withKubelet(withUserData("Write-Host x"))
	for _, family := range []Family{Windows2019, Windows2025} {
		if diff := cmp.Diff(mustRender(t, Windows2022, o), mustRender(t, family, o)); diff != "" {
			t.Errorf("%s (-Windows2022 +%s):\n%s", family, family, diff)
		}
	}
}

func Test1_7_Windows_IgnoresRAID0AndSaysSo(t *testing.T) {
	doc, err := Render(Windows2022, with(basic(), func(o *Options) { o.InstanceStore = RAID0 }))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Ignored) != 1 || !strings.HasPrefix(doc.Ignored[0], "spec.instanceStorePolicy: ") {
		t.Errorf("ignored %q, want a sentence about spec.instanceStorePolicy", doc.Ignored)
	}
}

func Test1_7_Custom_IsVerbatim(t *testing.T) {
	for _, text := range []string{"", "\x00\r\n", "<powershell>", "[broken", "MIME-Version: 1.0\nbroken", strings.Repeat("x", MaxBytes)} {
		// Nothing else is looked at: the instance may not even be EKS's.
		if got := mustRender(t, Custom, Options{UserData: text, Labels: map[string]string{"'": "'"}}); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func Test1_7_SizeLimit(t *testing.T) {
	doc, err := Render(Custom, Options{UserData: strings.Repeat("x", MaxBytes)})
	if err != nil || !doc.NearLimit() {
		t.Errorf("%d bytes: error %v, near the limit %v", MaxBytes, err, doc.NearLimit())
	}
	for _, c := range []struct {
		size int
		near bool
	}{{warnBytes - 1, false}, {warnBytes, true}} {
		doc, err := Render(Custom, Options{UserData: strings.Repeat("x", c.size)})
		if err != nil || doc.NearLimit() != c.near {
			t.Errorf("%d bytes: error %v, near the limit %v", c.size, err, doc.NearLimit())
		}
	}
	// Remarks do not count where they are not passed on, up to a point.
	remark := "# " + strings.Repeat("x", MaxBytes) + "\n"
	if doc, err := Render(Bottlerocket, withUserData(remark)); err != nil || len(doc.Text) > MaxBytes {
		t.Errorf("%d bytes of remarks: %v", len(remark), err)
	}
	var size *SizeError
	if _, err := Render(Bottlerocket, withUserData(strings.Repeat(remark, 4))); !errors.As(err, &size) {
		t.Errorf("%d bytes of remarks: %v, want a SizeError", 4*len(remark), err)
	}
	script := "#!/bin/bash\n# " + strings.Repeat("x", MaxBytes)
	for family, text := range map[Family]string{
		AL2: script, AL2023: script, Custom: script, Windows2022: script, Bottlerocket: "[settings]\nmotd = '" + strings.Repeat("x", MaxBytes) + "'",
	} {
		_, err := Render(family, withUserData(text))
		if !errors.As(err, &size) {
			t.Errorf("%s: error %v, want a SizeError", family, err)
			continue
		}
		if size.Size <= MaxBytes || size.OfUser != len(text) {
			t.Errorf("%s: %+v", family, size)
		}
		for _, want := range []string{"spec.userData", "16384"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not name %s", family, err, want)
			}
		}
	}
}

func Test1_7_Base64(t *testing.T) {
	doc, err := Render(AL2, basic())
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(doc.Base64()); err != nil || string(raw) != doc.Text {
		t.Errorf("does not decode to the text: %v", err)
	}
}

// Launch templates are named after their content, so equal input must give equal bytes. Go shuffles maps by itself.
func Test2_5_EqualInputGivesEqualBytes(t *testing.T) {
	for name, c := range goldens() {
		want := mustRender(t, c.family, c.o)
		for range 20 {
			if got := mustRender(t, c.family, c.o); got != want {
				t.Fatalf("%s differs:\n%s", name, cmp.Diff(want, got))
			}
		}
	}
}

func Test1_7_Render_LeavesItsInputAlone(t *testing.T) {
	o := withBottlerocketKubelet(basic())
	before := with(o, func(*Options) {})
	before.Labels = map[string]string{}
	for key, value := range o.Labels {
		before.Labels[key] = value
	}
	before.Taints = append([]Taint(nil), o.Taints...)
	for _, family := range managed {
		mustRender(t, family, o)
	}
	if diff := cmp.Diff(before, o); diff != "" {
		t.Errorf("options changed:\n%s", diff)
	}
}

func Test1_7_Bottlerocket_Versions(t *testing.T) {
	for version, want := range map[string]bool{
		"": false, "x": false, "1.46": false, "1.45.9": false, "v1.9.0": false,
		"1.46.0": true, "v1.46.0": true, "v1.50.1": true, "2.0.0": true, "latest": true, "1.46.0-abcdef01": true,
	} {
		if got := bindsByDefault(version); got != want {
			t.Errorf("bindsByDefault(%q) = %v, want %v", version, got, want)
		}
	}
}
