package web_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/web"
	"karpenter/test/browser"
)

// keep shows the cluster a buffer of so many spare pods with a core each.
func (c *cluster) keep(name string, pods int32) {
	c.put(state.BufferPod(&bufferv1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}, &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
	}}}}, pods))
	c.decide()
}

// bufferedCluster has a static pool that lacks a node, and a node with room for spare pods.
func bufferedCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(ticking())
	c.addPool("general", 10)
	base := c.View().Pool("general").Object.DeepCopy()
	base.Name, base.UID, base.Spec.Weight, base.Spec.Replicas = "base", "pool-base", nil, new(int64(3))
	base.Spec.Limits = v1.Limits{"nodes": resource.MustParse("4")}
	c.put(base)
	c.addNode(1, "base")
	c.addNode(4, "base")
	big := c.addNode(6, "general")
	c.addPod("web", 1000, 1000, big)
	c.keep("web", 3)
	return c
}

func TestP112_SpareRoomInTheModel(t *testing.T) {
	c := bufferedCluster(t)
	h := web.Handler(c, web.Options{})
	sum := func(list []model.Spare) (pods int, cpu int64) {
		for _, x := range list {
			if x.Buffer != "shop/web" {
				t.Errorf("room is kept for %s", x.Buffer)
			}
			pods, cpu = pods+x.Pods, cpu+x.CPU
		}
		return pods, cpu
	}
	rows := read[model.Fleet](t, h, "/api/v1/fleet/nodes")
	if pods, cpu := sum(rows.Totals.Spare); pods != 3 || cpu != 3000 {
		t.Errorf("rows: room for %d pods with %d millicores", pods, cpu)
	}
	if len(rows.Static) != 1 || rows.Static[0].Words() != "base 2 of 3" {
		t.Errorf("static pools %+v", rows.Static)
	}
	got := read[live](t, h, "/api/v1/fleet")
	here := 0
	for _, n := range got.Nodes {
		pods, _ := sum(n.Spare)
		here += pods
	}
	if pods, _ := sum(got.Totals.Spare); pods != 3 || here != 3 {
		t.Errorf("the page is told of room for %d pods, on nodes %d", pods, here)
	}

	// Without the buffer there is none, and those who follow are told.
	c.mirror.Drop(state.BufferPod(&bufferv1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, &corev1.PodTemplateSpec{}, 3))
	c.decide()
	data := get(t, h, "/api/v1/fleet").Body.Bytes()
	var after live
	if err := json.Unmarshal(data, &after); err != nil {
		t.Fatal(err)
	}
	for _, n := range after.Nodes {
		if len(n.Spare) > 0 {
			t.Errorf("node %s still has %+v", n.Node.Node, n.Spare)
		}
	}
	if len(after.Totals.Spare) > 0 || after.Version == got.Version {
		t.Errorf("totals %+v, version %d after %d", after.Totals.Spare, after.Version, got.Version)
	}
}

// Room that is kept for buffers has a colour of its own, by day and by night, and says what it is; static pools say how many nodes they have of how many.
func TestP112_P103_SpareRoomAndStaticPoolsOnThePage(t *testing.T) {
	c := bufferedCluster(t)
	x := page(t, c)
	x.Open("/")
	x.See("room for 3 more")
	x.Hash("#/pools")
	x.See("static: 2 of 3")
	x.See("2 of 3")
	x.Hash("#/fleet")
	x.Wait(`document.querySelector('.legend').innerText.includes('room kept for buffers')`)
	colour := `(() => {
		const c = document.querySelector('canvas'), copy = document.createElement('canvas');
		[copy.width, copy.height] = [c.width, c.height];
		const to = copy.getContext('2d', {willReadFrequently: true});
		to.drawImage(c, 0, 0);
		const d = to.getImageData(0, 0, c.width, c.height).data;
		const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue('--spare').trim().match(/[0-9a-f]{2}/g).map((x) => parseInt(x, 16));
		let n = 0, x = 0, y = 0;
		for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 12) { n++; x += (i / 4) % c.width; y += Math.floor(i / 4 / c.width); }
		const box = c.getBoundingClientRect();
		return {N: n, X: box.left + x / n / devicePixelRatio, Y: box.top + y / n / devicePixelRatio};
	})()`
	type found struct{ N, X, Y float64 }
	for _, dark := range []bool{true, false} {
		x.Dark(dark)
		x.Settle()
		x.Shot(map[bool]string{true: "spare-dark", false: "spare-light"}[dark])
		if got := browser.Eval[found](x, colour); got.N < 100 {
			t.Errorf("dark: %t: %v points of the picture have the colour of spare room", dark, got.N)
		}
	}
	at := browser.Eval[found](x, colour)
	x.Do("point at the room", chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y))
	x.Wait(`!document.querySelector('.tip').hidden && document.querySelector('.tip').innerText.includes('3 spare pods of buffer shop/web')`)
	x.Do("choose the node", chromedp.MouseClickXY(at.X, at.Y))
	x.Wait(`!document.querySelector('.panel').hidden && document.querySelector('.panel').innerText.includes('3 spare pods of buffer shop/web')`)
	x.Hash("#/fleet?as=table")
	x.See("Spare pods")
}
