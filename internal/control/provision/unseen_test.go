package provision

import (
	"testing"
	"time"
)

// A claim that was deleted before any watch has shown it, while watches were down, counts no longer than until the API server is
// asked for it. One that is only shown late goes on counting.
func TestN15_AClaimThatIsGoneAndWasNeverShownIsCollected(t *testing.T) {
	for _, gone := range []bool{true, false} {
		name := map[bool]string{true: "unseen-gone", false: "unseen-late"}[gone]
		t.Run(name, func(t *testing.T) {
			s := newFixture(typesOf(twoZones, 2), newPool(name))
			s.put(newPod("a", "1"))
			d := newRunner(t, s)
			d.Creator.Live = cluster.Client
			d.pass()
			first := stored(t, name)
			if len(first) != 1 {
				t.Fatalf("%d claims", len(first))
			}
			if gone {
				first[0].Finalizers = nil
				if err := cluster.Client.Update(t.Context(), &first[0]); err != nil {
					t.Fatal(err)
				}
				if err := cluster.Client.Delete(t.Context(), &first[0]); err != nil {
					t.Fatal(err)
				}
			}
			step := func(by time.Duration) int {
				d.clock.Step(by)
				d.pass()
				return len(stored(t, name))
			}
			before := step(unseenFor - time.Second)
			after := step(time.Second)
			if gone && (before != 0 || after != 1 || stored(t, name)[0].Name == first[0].Name) {
				t.Errorf("%d claims before it was looked for, %d after", before, after)
			}
			if !gone && (before != 1 || after != 1) {
				t.Errorf("%d and %d claims, though the first is there", before, after)
			}
			// Once it is shown nothing is looked for.
			now := stored(t, name)
			s.Put(&now[0])
			if step(unseenFor); len(d.Creator.unseen) > 0 {
				t.Errorf("%d claims are still looked for", len(d.Creator.unseen))
			}
		})
	}
}
