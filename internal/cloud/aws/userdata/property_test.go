package userdata

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

// Generators of what Kubernetes admits.
var (
	genName   = rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?`)
	genDomain = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?){0,3}`)
	genKey    = rapid.OneOf(genName, rapid.Custom(func(t *rapid.T) string { return genDomain.Draw(t, "domain") + "/" + genName.Draw(t, "name") }))
	genValue  = rapid.OneOf(rapid.Just(""), genName)
	genAmount = rapid.StringMatching(`[1-9][0-9]{0,4}(m|Mi|Gi|)`)
	genLimit  = rapid.OneOf(genAmount, rapid.StringMatching(`[1-9]?[0-9](\.[0-9])?%`))
	genNumber = rapid.Ptr(rapid.Int32Range(0, 100), true)
	genSignal = rapid.SampledFrom([]string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"})
	genAsset  = rapid.SampledFrom([]string{"cpu", "memory", "ephemeral-storage"})
	genTaint  = rapid.Custom(func(t *rapid.T) Taint {
		return Taint{genKey.Draw(t, "key"), genValue.Draw(t, "value"), rapid.SampledFrom([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}).Draw(t, "effect")}
	})
	genOptions = rapid.Custom(func(t *rapid.T) Options {
		o := basic()
		o.Labels = rapid.MapOfN(genKey, genValue, 0, 8).Draw(t, "labels")
		o.Taints = rapid.SliceOfN(genTaint, 0, 5).Draw(t, "taints")
		o.InstanceStore = rapid.SampledFrom([]InstanceStorePolicy{"", RAID0}).Draw(t, "store")
		o.Kubelet = Kubelet{
			ClusterDNS:     rapid.SampledFrom([][]string{nil, {"10.0.0.10"}, {"fd00::a"}}).Draw(t, "dns"),
			MaxPods:        genNumber.Draw(t, "maxPods"),
			SystemReserved: rapid.MapOfN(genAsset, genAmount, 0, 3).Draw(t, "systemReserved"),
			KubeReserved:   rapid.MapOfN(genAsset, genAmount, 0, 3).Draw(t, "kubeReserved"),
			EvictionHard:   rapid.MapOfN(genSignal, genLimit, 0, 6).Draw(t, "evictionHard"),
			EvictionSoft:   rapid.MapOfN(genSignal, genLimit, 0, 6).Draw(t, "evictionSoft"),
			EvictionSoftGracePeriod: rapid.MapOfN(genSignal, rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(0, 9999).Draw(t, "s")) * time.Second
			}), 0, 6).Draw(t, "grace"),
			EvictionMaxPodGracePeriod:   genNumber.Draw(t, "maxGrace"),
			ImageGCHighThresholdPercent: genNumber.Draw(t, "high"),
			ImageGCLowThresholdPercent:  genNumber.Draw(t, "low"),
			CPUCFSQuota:                 rapid.Ptr(rapid.Bool(), true).Draw(t, "quota"),
		}
		return o
	})
)

// genUserData makes data that the family takes, with lines that are near to what we write ourselves.
func genUserData(family Family) *rapid.Generator[string] {
	line := rapid.OneOf(rapid.StringMatching(`[ -~]{0,30}`), rapid.SampledFrom([]string{"--//", "--//--", "--karpenter-1", "", "--B", "Content-Type: text/plain"}))
	lines := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(line, 0, 6).Draw(t, "lines"), "\n") })
	switch family {
	case AL2, AL2023:
		return rapid.Custom(func(t *rapid.T) string {
			text := "#!/bin/sh\n" + lines.Draw(t, "script")
			if rapid.Bool().Draw(t, "archive") {
				return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"=B=\"\n\n--=B=\nContent-Type: text/x-shellscript\n\n" + text + "\n--=B=--\n"
			}
			return text
		})
	case Bottlerocket:
		return rapid.Custom(func(t *rapid.T) string {
			sysctl := map[string]string{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value")}
			text, err := toml.Marshal(map[string]any{"settings": map[string]any{"motd": rapid.String().Draw(t, "motd"), "kernel": map[string]any{"sysctl": sysctl}}})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		})
	}
	return lines
}

// Whatever Kubernetes admits arrives at the instance, next to whatever the user has it do.
func Test1_7_Property_InstanceLearnsWhatWasAsked(t *testing.T) {
	for _, family := range managed {
		t.Run(string(family), rapid.MakeCheck(func(rt *rapid.T) {
			o := genOptions.Draw(rt, "options")
			o.UserData = genUserData(family).Draw(rt, "user data")
			if family != Bottlerocket {
				o.Kubelet.PodsPerCore = genNumber.Draw(rt, "podsPerCore")
			}
			doc, err := Render(family, o)
			if err != nil {
				rt.Fatalf("Render: %v", err)
			}
			want, got := wantBoot(o), decode(t, family, doc.Text)
			if strings.HasPrefix(string(family), "Windows") {
				want.RAID0 = false
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
				rt.Fatalf("instance (-want +got):\n%s\n%s", diff, doc.Text)
			}
		}))
	}
}

// Hostile text is refused, or arrives unchanged. It never becomes more than a value.
func Test1_7_Property_NothingIsInjected(t *testing.T) {
	hostile := rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("ab'\"`$(){};&|\\<>\n\r\t ,=:#%‘’[]"))),
		rapid.SampledFrom([]string{"x' ; reboot #", "$(reboot)", "`reboot`", "a\nreboot", "a\" --x=\"", "</powershell>", "‘;reboot", "a,b=c", "\n--//\n"}),
	)
	for _, family := range managed {
		t.Run(string(family), rapid.MakeCheck(func(rt *rapid.T) {
			o := basic()
			switch text := hostile.Draw(rt, "text"); rapid.IntRange(0, 8).Draw(rt, "where") {
			case 0:
				o.Labels = map[string]string{"a": text}
			case 1:
				o.Labels = map[string]string{text: "a"}
			case 2:
				o.Taints = []Taint{{"a", text, "NoSchedule"}}
			case 3:
				o.Taints = []Taint{{text, "", "NoSchedule"}}
			case 4:
				o.ClusterName = text
			case 5:
				o.Endpoint = "https://a" + text
			case 6:
				o.Kubelet.ClusterDNS = []string{text}
			case 7:
				o.Kubelet.EvictionHard = map[string]string{"memory.available": text}
			case 8:
				o.Kubelet.KubeReserved = map[string]string{text: "1"}
			}
			doc, err := Render(family, o)
			if err != nil {
				var input *InputError
				if !errors.As(err, &input) {
					rt.Fatalf("error is %v", err)
				}
				return
			}
			if diff := cmp.Diff(wantBoot(o), decode(t, family, doc.Text)); diff != "" {
				rt.Fatalf("instance (-want +got):\n%s\n%s", diff, doc.Text)
			}
		}))
	}
}

// Each way of quoting keeps any text whole.
func Test1_7_Property_Quoting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("'‘’‚‛\"\\\n a$`#:-0")))).Draw(rt, "text")
		if words, err := shellWords("x " + shellQuote(text) + " y"); err != nil || len(words) != 3 || words[1] != text {
			rt.Errorf("shell: %q became %q (%v)", text, words, err)
		}
		if value, rest, err := powershellString(powershellQuote(text)[1:] + " -x"); err != nil || value != text || rest != " -x" {
			rt.Errorf("PowerShell: %q became %q and %q (%v)", text, value, rest, err)
		}
		settings, err := (&tomlFile{root: map[string]any{text: text}}).write()
		if err != nil {
			rt.Fatal(err)
		}
		if file, err := readTOML(settings); err != nil || file.root[text] != text {
			rt.Errorf("TOML: %q became %v (%v)", text, file, err)
		}
	})
}
