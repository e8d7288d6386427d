package state

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/world"
)

func TestS12_RecheckFindsWhatIsDerivedWrongly(t *testing.T) {
	l := newLab()
	l.put(l.node("host-1", ""), l.node("host-2", ""), l.pod("p", "host-1"), l.pod("q", ""))
	l.Assume(l.claim("general-1"))
	before := l.View()
	for last, looks := "", 0; ; looks++ {
		d, next := l.Recheck(last, 1)
		if len(d) > 0 {
			t.Fatalf("differences %v", d)
		}
		if last = next; last == "" {
			if looks != 2 {
				t.Errorf("%d looks at one node each, want one for each of two and one for what is pending", looks+1)
			}
			break
		}
	}
	if l.View().World != before.World {
		t.Error("a look has changed what decisions see")
	}
	host, pod := l.hosts["host-1"], l.pods["default"]["q"]
	host.facts = withPods(host.facts, nil, nil)
	host.facts.Pool = "another"
	l.markHost(host)
	pod.world = &world.Pod{Name: "q", UID: "wrong", Class: pod.class}
	l.View()
	d, _ := l.Recheck("", 10)
	var names []string
	for _, x := range d {
		names = append(names, x.Kind+" "+x.Name)
	}
	if diff := cmp.Diff([]string{"Node host-1"}, names); diff != "" || !strings.Contains(d[0].Mirror, "pool=another") || strings.Contains(d[0].API, "pool=another") {
		t.Errorf("%s %v", diff, d)
	}
	check(t, l.View(), "host-1 p; host-2; general-1(general-1) in flight; pending q")
	if d, _ := l.Recheck("", 10); len(d) > 0 {
		t.Errorf("what was put right is found again: %v", d)
	}
}
