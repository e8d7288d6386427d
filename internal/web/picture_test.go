package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"karpenter/test/browser"
)

// press presses a button of a row of buttons.
func press(x *browser.Tab, row, id string) {
	x.T.Helper()
	x.Wait(`(document.querySelector('[aria-label="` + row + `"] button[data-id="` + id + `"]').click(), true)`)
	x.Settle()
}

// pixels is what is on the canvas.
func pixels(x *browser.Tab) string {
	x.T.Helper()
	x.Settle()
	return browser.Eval[string](x, `document.querySelector('canvas').toDataURL()`)
}

// When something changes, only its box is drawn anew: that must look like everything drawn anew.
func TestWhatIsDrawnInPartsIsTheWhole(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Open("/#/fleet")
	x.Wait(`document.querySelector('canvas').dataset.boxes === '24'`)
	x.Do("choose a node", chromedp.Focus("canvas"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	x.Wait(`!document.querySelector('.panel').hidden`)
	before := pixels(x)
	for i := 0; i < 24; i += 5 {
		c.addPod("more", 200, 300, c.View().Nodes[i].World.Name)
	}
	object := c.View().Nodes[7].Object.DeepCopy()
	object.Spec.Unschedulable = true
	object.Status.Conditions[0].Status = "False"
	c.put(object)
	x.See("221 pods")
	x.Wait(`document.querySelector('.legend').innerText.includes('not ready')`)
	x.Do("choose another", chromedp.KeyEvent(kb.ArrowDown))
	at := browser.Eval[struct{ X, Y float64 }](x, `(() => { const r = document.querySelector('canvas').getBoundingClientRect(); return {X: r.left + 20, Y: r.top + 45}; })()`)
	x.Do("point at some, and leave", chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y), chromedp.MouseEvent(chromedp.MouseMoved, at.X+190, at.Y), chromedp.MouseEvent(chromedp.MouseMoved, at.X, 5))
	x.Wait(`document.querySelector('.tip').hidden`)
	parts := pixels(x)
	press(x, "Colour", "pool")
	press(x, "Colour", "capacityType")
	if whole := pixels(x); parts != whole {
		x.Shot("drawn-whole")
		t.Error("what was drawn in parts looks different from the whole")
	}
	if parts == before {
		t.Error("nothing was drawn")
	}
}

func TestTheFleetPageSaysWhatThereIs(t *testing.T) {
	c := newCluster(ticking())
	c.addPool("general", 10)
	x := page(t, c)
	x.Open("/")
	x.See("No pod is pending")
	x.Settle()
	x.Shot("empty-overview")
	x.Hash("#/fleet")
	x.See("The cluster has no node yet.")
	x.Shot("empty-fleet")
	c.addNode(1, "general")
	x.Wait(`document.querySelector('canvas').dataset.boxes === '1' && !document.querySelector('canvas').hidden`)
	press(x, "Show", "table")
	x.Wait(`document.querySelector('[aria-label="Colour"]').hidden && document.querySelector('.legend').hidden`)
	press(x, "Show", "picture")
	x.Wait(`!document.querySelector('[aria-label="Colour"]').hidden && document.querySelector('.legend').innerText.trim() === 'on-demand'`)
}
