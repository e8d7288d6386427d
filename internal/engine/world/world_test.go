package world

import (
	"testing"

	"pgregory.net/rapid"
)

func TestP56_Tolerates(t *testing.T) {
	taint := Taint{"dedicated", "gpu", NoSchedule}
	for _, c := range []struct {
		tol  Toleration
		want bool
	}{
		{Toleration{"dedicated", "Equal", "gpu", NoSchedule}, true},
		{Toleration{"dedicated", "", "gpu", NoSchedule}, true},
		{Toleration{"dedicated", "Equal", "db", NoSchedule}, false},
		{Toleration{"dedicated", "Exists", "", NoSchedule}, true},
		{Toleration{"dedicated", "Exists", "", NoExecute}, false},
		{Toleration{"dedicated", "Exists", "", ""}, true},
		{Toleration{"", "Exists", "", ""}, true},
		{Toleration{"", "Equal", "", ""}, false},
		{Toleration{"other", "Exists", "", ""}, false},
		{Toleration{"dedicated", "Strange", "gpu", ""}, false},
	} {
		if got := c.tol.Tolerates(taint); got != c.want {
			t.Errorf("%v tolerates %s: %t, want %t", c.tol, taint, got, c.want)
		}
	}
	if !(Toleration{"n", "Gt", "3", ""}).Tolerates(Taint{"n", "5", NoSchedule}) {
		t.Error("Gt 3 does not tolerate 5")
	}
}

func TestP56_PreferNoScheduleIsSoft(t *testing.T) {
	taints := []Taint{{"a", "", PreferNoSchedule}}
	if _, bad := Untolerated(taints, nil, false); bad {
		t.Error("a soft taint repels although it should not count")
	}
	if _, bad := Untolerated(taints, nil, true); !bad {
		t.Error("a soft taint does not repel although it should count")
	}
}

func TestP55_PortsConflict(t *testing.T) {
	a := Port{"", "TCP", 80}
	for _, c := range []struct {
		b    Port
		want bool
	}{
		{Port{"10.0.0.1", "TCP", 80}, true},
		{Port{"0.0.0.0", "TCP", 80}, true},
		{Port{"::", "TCP", 80}, true},
		{Port{"", "UDP", 80}, false},
		{Port{"", "TCP", 81}, false},
	} {
		if got := a.Conflicts(c.b); got != c.want {
			t.Errorf("%v conflicts with %v: %t, want %t", a, c.b, got, c.want)
		}
	}
	if (Port{"10.0.0.1", "TCP", 80}).Conflicts(Port{"10.0.0.2", "TCP", 80}) {
		t.Error("two addresses conflict")
	}
}

func TestP46_Selector(t *testing.T) {
	l := NewLabels(map[string]string{"app": "web"})
	if (Selector{}).Matches(l) {
		t.Error("a missing selector matches")
	}
	if !(Selector{Some: true}).Matches(l) {
		t.Error("an empty selector does not match")
	}
}

func TestPropertyArithmeticNeverWraps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		for _, v := range []int64{AddSat(a, b), MulSat(a, b)} {
			if v > Unlimited || v < -Unlimited {
				t.Fatalf("%d and %d give %d", a, b, v)
			}
		}
		if s := AddSat(a, b); a > 0 && b > 0 && s < 0 {
			t.Fatalf("%d plus %d is negative", a, b)
		}
		if p := MulSat(a, b); a > 0 && b > 0 && p <= 0 {
			t.Fatalf("%d times %d is %d", a, b, p)
		}
	})
}

func TestOverlayLeavesItsBaseAlone(t *testing.T) {
	n := func(name string, pods ...*Pod) *Node { return &Node{Name: name, Pods: pods} }
	moving, staying := &Pod{Name: "m", Movable: true}, &Pod{Name: "s"}
	s := &Snapshot{Nodes: []*Node{n("a", moving, staying), n("b")}, Pending: []*Pod{{Name: "p"}}}
	o := s.Over().Without(0)
	if !o.Gone(0) || o.Gone(1) || s.Over().Gone(0) {
		t.Error("the wrong nodes are gone")
	}
	if got := o.Wanting(); len(got) != 2 || got[1] != moving {
		t.Errorf("wanting %v", got)
	}
	if len(s.Pending) != 1 {
		t.Error("the base has changed")
	}
}
