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
		{"healthy", []life.NodeCondition{{"Ready", "True", t0}}, "", time.Time{}},
		{"a condition that no policy names", []life.NodeCondition{{"DiskPressure", "True", t0}}, "", time.Time{}},
		{"not ready", []life.NodeCondition{{"Ready", "False", t0}}, "Ready", at(1800)},
		{"nobody knows since when", []life.NodeCondition{{"Ready", "False", time.Time{}}}, "", time.Time{}},
		{"unknown", []life.NodeCondition{{"Ready", "Unknown", t0}}, "Ready", at(1800)},
		{"the one that is due first, not the older one", []life.NodeCondition{{"Ready", "False", t0}, {"AcceleratedHardwareReady", "False", at(60)}}, "AcceleratedHardwareReady", at(660)},
		{"in any order", []life.NodeCondition{{"AcceleratedHardwareReady", "False", at(60)}, {"Ready", "False", t0}}, "AcceleratedHardwareReady", at(660)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, ok := life.Diagnose(c.conditions, policies)
			if ok != (c.want != "") || got.Condition.Type != c.want || !got.Due.Equal(c.due) {
				t.Errorf("got %v %+v", ok, got)
			}
		})
	}
	ill, _ := life.Diagnose([]life.NodeCondition{{"Ready", "False", t0}}, policies)
	if got := ill.String(); got != "Ready is False since 2026-01-02T03:04:05Z" {
		t.Errorf("it reads %q", got)
	}
}

func TestD58_AFifthRoundedUp(t *testing.T) {
	for _, c := range []struct {
		unhealthy, total int
		want             bool
	}{
		{1, 1, true},
		{1, 5, true},
		{2, 5, false},
		{2, 6, true},
		{3, 10, false},
		{3, 11, true},
		{200, 1000, true},
		{201, 1000, false},
	} {
		ok, why := life.MayRepair(c.unhealthy, c.total)
		if ok != c.want || ok != (why == "") || !ok && !strings.Contains(why, "20%") {
			t.Errorf("%d of %d: %v %q", c.unhealthy, c.total, ok, why)
		}
	}
}
