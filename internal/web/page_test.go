package web_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"karpenter/internal/ledger"
	"karpenter/internal/web"
	"karpenter/test/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

// page is a tab for the dashboard of a cluster.
func page(t *testing.T, c *cluster) *browser.Tab {
	t.Helper()
	return browser.New(t, listen(t, web.Handler(c, web.Options{Dashboard: true})).URL)
}

// ticking is a clock that begins on a Sunday, when budgets of the made-up pools allow consolidation.
func ticking() func() time.Time {
	begin := time.Now()
	return func() time.Time { return sunday().Add(time.Since(begin)) }
}

func TestPagesLoad(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Open("/")
	x.See("shop-production")
	x.See("Pending pods")
	x.Wait(`document.querySelector('#line').dataset.state === 'live'`)
	x.See("m6i.4xlarge spot in us-west-2c is out of stock")
	for _, p := range []struct{ hash, want string }{
		{"#/fleet", "24 nodes"},
		{"#/fleet?as=table", "us-west-2a"},
		{"#/fleet?when=after", "becomes"},
		{"#/decisions", "2 nodes make way for 1"},
		{"#/decision/3", "done after 94 s"},
		{"#/pools", "over the next seven days"},
		{"#/prices", "Out of stock"},
		{"#/costs", "By workload"},
		{"#/interruptions", "in two minutes"},
		{"#/node/" + c.View().Nodes[3].World.Claim, "What would change this"},
		{"#/pod/shop/" + c.stuck(), "What would change this"},
	} {
		x.Hash(p.hash)
		x.See(p.want)
	}
}

func TestScreens(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Open("/")
	x.See("6 pods get 2 new nodes")
	pages := []struct{ name, hash, ready string }{
		{"overview", "#/", "Latest decisions"},
		{"fleet", "#/fleet", "24 nodes"},
		{"after", "#/fleet?when=after", "becomes"},
		{"table", "#/fleet?as=table", "us-west-2a"},
		{"decisions", "#/decisions", "6 pods get 2 new nodes"},
		{"node", "#/node/" + c.View().Nodes[3].World.Claim, "What would change this"},
		{"pod", "#/pod/shop/" + c.stuck(), "What would change this"},
		{"pools", "#/pools", "over the next seven days"},
		{"prices", "#/prices", "Out of stock"},
		{"costs", "#/costs", "By workload"},
	}
	for _, dark := range []bool{false, true} {
		x.Dark(dark)
		for _, width := range []int64{1280, 400} {
			x.Size(width, 800)
			for _, p := range pages {
				x.Hash(p.hash)
				x.See(p.ready)
				x.Settle()
				x.Shot(fmt.Sprintf("%s-%d-%s", p.name, width, map[bool]string{true: "dark", false: "light"}[dark]))
				if wide := browser.Eval[float64](x, `document.documentElement.scrollWidth`); wide > float64(width) {
					t.Errorf("%s is %v wide, the window %d", p.name, wide, width)
				}
			}
		}
	}
}

func TestLiveUpdate(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Open("/#/fleet")
	x.Wait(`document.querySelector('canvas').dataset.boxes === '24'`)
	c.addNode(200, "general")
	x.Wait(`document.querySelector('canvas').dataset.boxes === '25'`)
	x.See("25 nodes")
	x.Hash("#/")
	x.See("Latest decisions")
	for range 3 {
		c.addPod("flood", 100, 100, "")
	}
	x.See("10 pending")
	c.ledger.Add(ledger.Entry{Kind: ledger.Plan, Summary: "3 pods get room on a node"})
	x.See("3 pods get room on a node")
	x.Hash("#/decisions")
	x.See("2 nodes make way for 1")
	id := c.ledger.Add(ledger.Entry{Kind: ledger.Move, Summary: "1 node makes way", Outcome: ledger.Open})
	x.See("under way")
	x.Wait(`document.getElementById('say').textContent.includes('1 node makes way')`)
	c.ledger.Settle(id, ledger.Failed, "the replacement never came")
	x.Wait(fmt.Sprintf(`document.querySelector('li[data-id="%d"]').innerText.includes('failed')`, id))
	n := c.View().Nodes[2]
	x.Hash("#/node/" + n.World.Claim)
	x.See("9 pods")
	c.addPod("new", 10, 10, n.World.Name)
	x.See("10 pods")
	c.mirror.Drop(n.Object)
	c.mirror.Drop(n.Claim)
	x.See("This node is not there")
}

func TestDrillDown(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Open("/#/fleet")
	x.Wait(`document.querySelector('canvas').dataset.drawn > 0`)
	at := browser.Eval[struct{ X, Y float64 }](x, `(() => { const r = document.querySelector('canvas').getBoundingClientRect(); return {X: r.left + 20, Y: r.top + 45}; })()`)
	x.Do("point at a node", chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y))
	x.Wait(`!document.querySelector('.tip').hidden && document.querySelector('.tip').innerText.includes('m6i.4xlarge')`)
	x.Do("click a node", chromedp.MouseClickXY(at.X, at.Y))
	x.Wait(`!document.querySelector('.panel').hidden`)
	x.Do("open it", chromedp.Click(".panel a.button"))
	x.See("What would change this")
	x.Do("click a pod", chromedp.Click("tbody .pod-name a"))
	x.See("Pod in shop")
	x.Wait(`document.querySelector('.verdict')`)

	t.Run("by keyboard", func(t *testing.T) {
		x.T = t
		x.Open("/#/fleet")
		x.Wait(`document.querySelector('canvas') && document.querySelector('canvas').dataset.drawn > 0`)
		x.Do("go to the picture", chromedp.Focus("canvas"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
		x.Wait(`!document.querySelector('.panel').hidden && document.getElementById('say').textContent.includes('us-west-2')`)
		x.Do("leave and come back", chromedp.KeyEvent(kb.Escape))
		x.Wait(`document.querySelector('.panel').hidden`)
		x.Do("open", chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
		x.Wait(`location.hash.startsWith('#/node/')`)
		x.Wait(`document.querySelector('.verdict')`)
		x.Do("search", chromedp.KeyEvent("/"), chromedp.SendKeys("#find", "report-"), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
		x.Wait(`location.hash.startsWith('#/pod/shop/report-')`)
		x.Hash("#/decisions?kind=Move")
		x.See("2 nodes make way for 1")
		x.Do("open a decision", chromedp.Focus(".entry summary"), chromedp.KeyEvent(kb.Enter))
		x.See("done after 94 s")
	})
}

func TestDarkMode(t *testing.T) {
	c := smallCluster(t, ticking())
	x := page(t, c)
	x.Dark(true)
	x.Open("/")
	x.See("shop-production")
	background := `getComputedStyle(document.body).backgroundColor`
	night := browser.Eval[string](x, background)
	x.Dark(false)
	x.Wait(fmt.Sprintf("%s !== %q", background, night))
	day := browser.Eval[string](x, background)
	for _, want := range []string{day, night, day} { // light, dark, as the system, which is light
		x.Do("press the button", chromedp.Click("#theme"))
		x.Wait(fmt.Sprintf("%s === %q", background, want))
	}
	x.Do("choose dark", chromedp.Click("#theme"), chromedp.Click("#theme"))
	x.Open("/#/fleet")
	x.Wait(fmt.Sprintf("%s === %q", background, night))
}

// Under the API server's proxy the page has a long path before it.
func TestUnderAPath(t *testing.T) {
	const path = "/api/v1/namespaces/kube-system/pods/http:karpenter:8080/proxy"
	c := smallCluster(t, ticking())
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, web.Handler(c, web.Options{Dashboard: true})))
	x := browser.New(t, listen(t, mux).URL)
	x.Open(path + "/#/fleet")
	x.Wait(`document.querySelector('canvas') && document.querySelector('canvas').dataset.boxes === '24'`)
	x.Wait(`document.querySelector('#line').dataset.state === 'live'`)
	x.Do("go to the pools", chromedp.Click(`.tabs a[data-id="pools"]`))
	x.See("over the next seven days")
}

func TestSignIn(t *testing.T) {
	c := smallCluster(t, ticking())
	x := browser.New(t, listen(t, web.Handler(c, web.Options{Dashboard: true, Authorize: tokens})).URL, "401", "403")
	x.Open("/#/decisions")
	x.See("a token is needed")
	x.Do("a wrong token", chromedp.SendKeys("#token", "wrong\r"))
	x.See("a token is needed")
	x.Do("of somebody who may not", chromedp.SendKeys("#token", "nobody\r"))
	x.See("not allowed")
	x.Do("a good one", chromedp.SendKeys("#token", "good\r"))
	x.See("2 nodes make way for 1")
	x.Do("load it again", chromedp.Reload())
	x.See("2 nodes make way for 1")
	x.Wait(`document.querySelector('#line').dataset.state === 'live'`)
	x.Wait(`!document.getElementById('sign-out').hidden`)
	x.Do("sign out", chromedp.Click("#sign-out"))
	x.See("a token is needed")
	if left := browser.Eval[bool](x, `document.body.innerText.includes('2 nodes make way') || sessionStorage.length > 0`); left {
		t.Error("something of the cluster or the token is left after signing out")
	}
	x.Do("sign in again", chromedp.SendKeys("#token", "good\r"))
	x.See("2 nodes make way for 1")
	if kept := browser.Eval[bool](x, `Object.values(localStorage).join().includes('good') || document.cookie !== ''`); kept {
		t.Error("the token outlives the tab")
	}
}

// A browser keeps six connections to one host. Tabs that nobody sees hold none, and show what they have missed when they are seen.
func TestTabsBehindOthersLetGo(t *testing.T) {
	c := smallCluster(t, ticking())
	dashboard := web.Handler(c, web.Options{Dashboard: true})
	streams := make(chan int, 100)
	x := browser.New(t, listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/stream" {
			streams <- 1
			defer func() { streams <- -1 }()
		}
		dashboard.ServeHTTP(w, r)
	})).URL)
	next := func(want int) {
		t.Helper()
		select {
		case got := <-streams:
			if got != want {
				t.Fatalf("a stream has begun or ended: %d, want %d", got, want)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("no stream has begun or ended: want %d", want)
		}
	}
	hide := func(is bool) {
		t.Helper()
		x.Wait(fmt.Sprintf(`(Object.defineProperty(document, 'hidden', {value: %t, configurable: true}), document.dispatchEvent(new Event('visibilitychange')), true)`, is))
	}
	x.Open("/#/decisions")
	x.See("2 nodes make way for 1")
	next(1)
	hide(true)
	next(-1)
	c.ledger.Add(ledger.Entry{Kind: ledger.Plan, Summary: "3 pods get room on a node"})
	c.addNode(200, "general")
	hide(false)
	next(1)
	x.See("3 pods get room on a node")
	x.Hash("#/fleet")
	x.See("25 nodes")
}
