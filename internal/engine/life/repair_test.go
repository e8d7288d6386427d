package life_test

import (
	"strings"
	"testing"
	"time"

	"karpenter/internal/engine/life"
)

func TestD58_Diagnose(t *testing.T) {
	policies := []life.RepairPolicy{
		{Type: "Ready", Status: "False", Tolerated: 30 * time.Minute},
		{Type: "Ready", Status: "Unknown", Tolerated: 30 * time.Minute},
		{Type: "AcceleratedHardwareReady", Status: "False", Tolerated: 10 * time.Minute},
	}
	cases := []struct {
		name       string
		conditions []life.NodeCondition
		want       string
		due        time.Time
	}{
		{"healthy", []life.NodeCondition{{Type: "Ready", Status: "True", Since: t0}}, "", time.Time{}},
		{"a condition that no policy names", []life.NodeCondition{{Type: "DiskPressure", Status: "True", Since: t0}}, "", time.Time{}},
		{"not ready", []life.NodeCondition{{Type: "Ready", Status: "False", Since: t0}}, "Ready", at(1800)},
		{"nobody knows since when", []life.NodeCondition{{Type: "Ready", Status: "False", Since: time.Time{}}}, "", time.Time{}},
		{"unknown", []life.NodeCondition{{Type: "Ready", Status: "Unknown", Since: t0}}, "Ready", at(1800)},
		{"the one that is due first, not the older one", []life.NodeCondition{{Type: "Ready", Status: "False", Since: t0}, {Type: "AcceleratedHardwareReady", Status: "False", Since: at(60)}}, "AcceleratedHardwareReady", at(660)},
		{"in any order", []life.NodeCondition{{Type: "AcceleratedHardwareReady", Status: "False", Since: at(60)}, {Type: "Ready", Status: "False", Since: t0}}, "AcceleratedHardwareReady", at(660)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, ok := life.FirstDue(c.conditions, policies)
			if ok != (c.want != "") || got.Condition.Type != c.want || !got.Due.Equal(c.due) {
				t.Errorf("got %v %+v", ok, got)
			}
		})
	}
	ill, _ := life.FirstDue([]life.NodeCondition{{Type: "Ready", Status: "False", Since: t0}}, policies)
	if got := ill.String(); got != "Ready is False since 2026-01-02T03:04:05Z" {
		t.Errorf("it reads %q", got)
	}
}

func duration(d time.Duration) *time.Duration { return &d }

func policies() []life.RepairPolicy {
	return []life.RepairPolicy{
		{Type: "Ready", Status: "False", Tolerated: 30 * time.Minute, Action: life.ReplaceNode},
		{Type: "GPU", Status: "False", ReasonRegex: "^XID(46|48)$", Tolerated: 10 * time.Minute, Priority: 5, Action: life.RebootNode},
		{Type: "GPU", Status: "False", ReasonRegex: "^XID79$", Tolerated: 10 * time.Minute, Priority: 9, Action: life.ReplaceNode},
		{Type: "GPU", Status: "False", Tolerated: 20 * time.Minute, Priority: 1, Action: life.ReplaceNode},
	}
}

func TestN6_Diagnose(t *testing.T) {
	rules, err := life.NewRepairRules(policies())
	if err != nil {
		t.Fatal(err)
	}
	ready := life.NodeCondition{Type: "Ready", Status: "False", Since: t0}
	gpu := func(reason string, since time.Time) life.NodeCondition {
		return life.NodeCondition{Type: "GPU", Status: "False", Reason: reason, Since: since}
	}
	for _, c := range []struct {
		name       string
		conditions []life.NodeCondition
		now        time.Time
		want       string
		due        time.Time
		action     life.RepairAction
	}{
		{"healthy", []life.NodeCondition{{Type: "Ready", Status: "True", Since: t0}}, at(0), "", time.Time{}, ""},
		{"a reason that a pattern names", []life.NodeCondition{gpu("XID48", t0)}, at(0), "GPU", at(600), life.RebootNode},
		{"the next pattern", []life.NodeCondition{gpu("XID79", t0)}, at(0), "GPU", at(600), life.ReplaceNode},
		{"any other reason", []life.NodeCondition{gpu("XID790", t0)}, at(0), "GPU", at(1200), life.ReplaceNode},
		{"not due: what is due first", []life.NodeCondition{ready, gpu("XID79", at(900))}, at(0), "GPU", at(1500), life.ReplaceNode},
		{"what is due before what is not", []life.NodeCondition{gpu("XID79", at(1500)), ready}, at(1801), "Ready", at(1800), life.ReplaceNode},
		{"of what is due, the higher priority", []life.NodeCondition{ready, gpu("XID79", at(1500))}, at(3600), "GPU", at(2100), life.ReplaceNode},
		{"nobody knows since when", []life.NodeCondition{gpu("XID79", time.Time{})}, at(3600), "", time.Time{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := rules.Diagnose(c.conditions, c.now)
			if ok != (c.want != "") || got.Condition.Type != c.want || !got.Due.Equal(c.due) || got.Policy.Action != c.action {
				t.Errorf("got %v %+v", ok, got)
			}
		})
	}
	ill, _ := rules.Diagnose([]life.NodeCondition{gpu("XID79", t0)}, t0)
	if got := ill.String(); got != "GPU is False since 2026-01-02T03:04:05Z (XID79)" {
		t.Errorf("it reads %q", got)
	}
}

func TestN6_PoliciesAreChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(list []life.RepairPolicy) []life.RepairPolicy
		want   string
	}{
		{"a pattern that does not compile", func(l []life.RepairPolicy) []life.RepairPolicy { l[1].ReasonRegex = "XID("; return l }, "repair policy 1 (GPU=False): reasonRegex: error parsing regexp: missing closing ): `XID(`; it must be a regular expression such as"},
		{"nothing for other reasons", func(l []life.RepairPolicy) []life.RepairPolicy { return l[:3] }, "repair policy 1 (GPU=False): reasonRegex: no policy of this condition is for all other reasons; add one without reasonRegex, and with action ReplaceNode"},
		{"two for other reasons", func(l []life.RepairPolicy) []life.RepairPolicy { return append(l, l[3]) }, "repair policy 4 (GPU=False): reasonRegex: another policy of this condition has \"\" too"},
		{"other reasons reboot", func(l []life.RepairPolicy) []life.RepairPolicy { l[3].Action = life.RebootNode; return l }, "repair policy 3 (GPU=False): action: the policy for all other reasons, without reasonRegex, must be ReplaceNode"},
		{"an unknown action", func(l []life.RepairPolicy) []life.RepairPolicy { l[1].Action = "Kick"; return l }, `action: "Kick" must be RebootNode or ReplaceNode`},
		{"a priority that is too high", func(l []life.RepairPolicy) []life.RepairPolicy { l[1].Priority = 101; return l }, "priority: 101 must be from 0 to 100"},
		{"a grace period below zero", func(l []life.RepairPolicy) []life.RepairPolicy { l[1].Grace = duration(-time.Second); return l }, "terminationGracePeriod: -1s must not be less than 0"},
		{"a toleration below zero", func(l []life.RepairPolicy) []life.RepairPolicy { l[1].Tolerated = -1; return l }, "tolerated: -1ns must not be less than 0"},
		{"no condition", func(l []life.RepairPolicy) []life.RepairPolicy { l[0].Type = ""; return l }, "repair policy 0 (=False): condition: both type and status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := life.NewRepairRules(c.change(policies()))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestN6_TheShorterGracePeriodCounts(t *testing.T) {
	for _, c := range []struct{ policy, claim, want *time.Duration }{
		{nil, nil, nil},
		{nil, duration(time.Hour), duration(time.Hour)},
		{duration(time.Minute), nil, duration(time.Minute)},
		{duration(time.Minute), duration(time.Hour), duration(time.Minute)},
		{duration(time.Hour), duration(time.Minute), duration(time.Minute)},
		{duration(0), duration(time.Minute), duration(0)},
	} {
		got := life.DrainWithin(c.policy, c.claim)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v and %v give %v, want %v", c.policy, c.claim, got, c.want)
		}
	}
}
