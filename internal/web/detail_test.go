package web_test

import (
	"math"
	"testing"

	"karpenter/internal/model"
	"karpenter/internal/web"
	"karpenter/test/browser"
)

// The page of a node says what its objects say, and every fact once.
func TestTheNodePageSaysEverythingOnce(t *testing.T) {
	c := smallCluster(t, ticking())
	n := c.View().Nodes[3]
	x := page(t, c)
	x.Open("/#/node/" + n.World.Claim)
	x.See("Conditions")
	for _, want := range []string{"topology.kubernetes.io/zone=", "Node Ready=True", "CPU requested"} {
		x.See(want)
	}
	const names = `[...document.querySelectorAll('.columns dt')].map((e) => e.innerText.toLowerCase().replace(' requested', ''))`
	if twice := browser.Eval[[]string](x, names+`.filter((n, i, all) => all.indexOf(n) !== i)`); len(twice) > 0 {
		t.Errorf("these facts stand on the page twice: %q", twice)
	}
}

// Charts have figures on both axes, and show the time that was chosen.
func TestChartsHaveAxesAndARange(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Open("/")
	x.Wait(`document.querySelectorAll('[data-kind="cost"] .chart-y').length === 3 && document.querySelector('[data-kind="cost"] .chart-y').innerText.startsWith('$')`)
	x.Wait(`[...document.querySelectorAll('[data-kind="nodes"] .chart-y')].at(-1).innerText === '0'`)
	press(x, "Time", "3600")
	x.Wait(`document.querySelector('[aria-label="Time"] [data-id="3600"]').getAttribute('aria-pressed') === 'true'`)
	x.Wait(`[...document.querySelectorAll('[data-kind="cost"] .chart-x')].at(-1).innerText === 'now'`)
}

// Ages move on by themselves.
func TestAgesMove(t *testing.T) {
	c := smallCluster(t, ticking())
	c.addPod("late", 100, 100, "")
	x := page(t, c)
	x.Open("/")
	x.See("Pending pods")
	x.Wait(`document.querySelector('time[data-age]') !== null`)
	x.Wait(`(window.was ??= [...document.querySelectorAll('time[data-age]')].map((e) => e.innerText).join()) !== [...document.querySelectorAll('time[data-age]')].map((e) => e.innerText).join()`)
}

// What namespaces cost, and what workloads cost, is what the nodes cost.
func TestCostsAddUp(t *testing.T) {
	c := smallCluster(t, sunday)
	h := web.Handler(c, web.Options{})
	got, fleet := read[model.Costs](t, h, "/api/v1/costs"), read[model.Fleet](t, h, "/api/v1/fleet/nodes")
	for name, list := range map[string][]model.CostShare{"namespaces": got.Namespaces, "workloads": got.Workloads} {
		sum, pods := got.Empty, 0
		for _, x := range list {
			sum, pods = sum+x.Price, pods+x.Pods
		}
		if math.Abs(sum-fleet.Totals.PerHour) > 1e-9 || int64(pods) != fleet.Totals.PodSlots.Requested {
			t.Errorf("%s cost %v for %d pods, the nodes %v for %d", name, sum, pods, fleet.Totals.PerHour, fleet.Totals.PodSlots.Requested)
		}
	}
	if len(got.Workloads) < len(got.Namespaces) || got.Workloads[0].Kind == "" || got.Workloads[0].Price < got.Workloads[len(got.Workloads)-1].Price {
		t.Errorf("workloads %+v", got.Workloads)
	}
}
