package web_test

import (
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"karpenter/test/browser"
)

// The bars for a thousand nodes and twenty thousand pods, in milliseconds, and how much more a busy machine may take.
const (
	barPaint  = 1000.0
	barUpdate = 200.0
	busy      = 3
)

func TestAThousandNodes(t *testing.T) {
	c := newCluster(ticking())
	c.fill(1000, 20)
	x := page(t, c)
	c.View()
	for _, p := range []string{"/", "/#/fleet"} {
		x.Do("leave", chromedp.Navigate("about:blank"))
		x.Open(p)
		x.Wait(`performance.getEntriesByName('painted').length > 0`)
		paint := browser.Eval[float64](x, `performance.getEntriesByName('painted')[0].startTime`)
		t.Logf("%s: first paint with data after %.0f ms", p, paint)
		if paint > busy*barPaint {
			t.Errorf("%s: first paint after %.0f ms, at most %.0f", p, paint, busy*barPaint)
		}
	}
	x.Wait(`document.querySelector('canvas').dataset.boxes === '1000'`)
	x.Wait(`document.querySelector('#line').dataset.state === 'live'`)
	x.Shot("thousand")
	var all []float64
	for i := range 10 {
		name := c.View().Nodes[i*90].World.Name
		begin := time.Now()
		c.addPod("update", 10, 10, name)
		x.Wait(`[...performance.getEntriesByName('update')].length > ` + string(rune('0'+i)))
		all = append(all, float64(time.Since(begin).Milliseconds()))
	}
	drawn := browser.Eval[float64](x, `Math.max(...performance.getEntriesByName('update').map((m) => m.duration))`)
	slices.Sort(all)
	median := all[len(all)/2]
	t.Logf("an update is on the screen at most %.0f ms after it was received, and %.0f ms (median; %.0f at most) after the cluster changed", drawn, median, all[len(all)-1])
	if drawn > busy*barUpdate || median > busy*barUpdate {
		t.Errorf("an update took %.0f ms in the page and %.0f ms in all, at most %.0f", drawn, median, busy*barUpdate)
	}
}
