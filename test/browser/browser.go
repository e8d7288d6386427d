// Package browser drives a real headless Chromium for tests of the dashboard. Whatever a page complains of (an error or a
// warning on its console, a request to another host, something that the content security policy forbids) fails the test.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// requireChromium, when set in the environment, turns the lack of the browser from a skipped test into a failed one. The make
// target sets it.
const requireChromium = "KARPENTER_TEST_CHROMIUM"

// patience is far above what anything here takes.
const patience = 30 * time.Second

// browser is started by the first test that needs it.
var browser struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

// Main runs the tests of a package, and ends the browser afterwards if one was started.
func Main(m *testing.M) int {
	code := m.Run()
	if browser.cancel != nil {
		browser.cancel()
	}
	return code
}

func startBrowser(path string) {
	dir, err := os.MkdirTemp("", "karpenter-chromium-")
	if err != nil {
		browser.err = err
		return
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	ctx, end := chromedp.NewContext(ctx)
	browser.ctx = ctx
	browser.cancel = func() {
		end()
		stop()
		_ = os.RemoveAll(dir)
	}
	browser.err = chromedp.Do(ctx, chromedp.Navigate("about:blank"))
}

// Step is something that is done in a page.
type Step = chromedp.Action[chromedp.Void]

// Tab is a page that a test looks at.
type Tab struct {
	// T is told of failures; a subtest may put itself here.
	T    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	troubles []string
}

// New opens an empty tab for pages of one address. expected are texts in console messages that the test brings about on purpose.
func New(t *testing.T, base string, expected ...string) *Tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds; not with -short")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv(requireChromium) != "" {
			t.Fatal("chromium is missing; on Debian: apt-get install -y chromium")
		}
		t.Skip("chromium is missing; on Debian: apt-get install -y chromium")
	}
	browser.once.Do(func() { startBrowser(path) })
	if browser.err != nil {
		t.Fatalf("starting chromium: %v", browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx)
	x := &Tab{T: t, ctx: ctx, base: strings.TrimSuffix(base, "/")}
	messages, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if string(m.Type) == "error" || string(m.Type) == "warning" || m.IsException() {
				if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(m.Text, e) }) {
					x.note(m.String() + " " + m.URL)
				}
			}
		}
	})
	reading.Go(func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if !strings.HasPrefix(r.Request.URL, x.base+"/") && !strings.HasPrefix(r.Request.URL, "data:") && !strings.HasPrefix(r.Request.URL, "about:") {
				x.note("a request to another host: " + r.Request.URL)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		for _, trouble := range x.troubles {
			t.Error(trouble)
		}
	})
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	x.Size(1280, 800)
	return x
}

func (x *Tab) note(trouble string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.troubles = append(x.troubles, trouble)
}

// Do does something in the page, step by step.
func (x *Tab) Do(what string, steps ...Step) {
	x.T.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		x.T.Fatalf("%s: %v", what, err)
	}
}

// Open goes to a path.
func (x *Tab) Open(path string) {
	x.T.Helper()
	x.Do("open "+path, chromedp.Navigate(x.base+path))
}

// Hash goes to another page of the dashboard.
func (x *Tab) Hash(path string) {
	x.T.Helper()
	x.Wait(fmt.Sprintf("(location.hash = %q, true)", path))
}

// Size sets the size of the window.
func (x *Tab) Size(width, height int64) {
	x.T.Helper()
	x.Do("set the size", chromedp.EmulateViewport(width, height))
}

// Dark says whether the system is dark.
func (x *Tab) Dark(is bool) {
	x.T.Helper()
	value := "light"
	if is {
		value = "dark"
	}
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}}
	if _, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, params); err != nil {
		x.T.Fatal(err)
	}
}

// Eval is the value of an expression in the page.
func Eval[T any](x *Tab, expression string) T {
	x.T.Helper()
	got, err := chromedp.Run(x.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		x.T.Fatalf("%s: %v", expression, err)
	}
	return got
}

// Wait waits until an expression is true in the page.
func (x *Tab) Wait(expression string) {
	x.T.Helper()
	deadline := time.Now().Add(patience)
	for {
		got, err := chromedp.Run(x.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && got {
			return
		}
		if time.Now().After(deadline) {
			x.Shot("failed-" + strings.ReplaceAll(x.T.Name(), "/", "-"))
			x.T.Fatalf("waited %v for %s: %v\n%s", patience, expression, err, Eval[string](x, "document.body.innerText"))
		}
		select {
		case <-x.ctx.Done():
			x.T.Fatalf("%s: the browser is gone: %v", expression, err)
		case <-time.After(15 * time.Millisecond):
		}
	}
}

// Settle waits until what has changed is on the screen.
func (x *Tab) Settle() {
	x.T.Helper()
	const frames = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 0))))`
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)); err != nil {
		x.T.Fatalf("waiting for a frame: %v", err)
	}
}

// Busy is how long the page's process has had a processor so far: what it takes, however busy the instance is with other things.
func (x *Tab) Busy() time.Duration {
	x.T.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, performance.Enable, performance.EnableParams{}); err != nil {
		x.T.Fatal(err)
	}
	got, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		x.T.Fatal(err)
	}
	for _, m := range got.Metrics {
		if m.Name == "ProcessTime" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	x.T.Fatalf("the browser does not say what a page takes: %v", got.Metrics)
	return 0
}

// See waits for a text on the page.
func (x *Tab) See(text string) {
	x.T.Helper()
	x.Wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// Shot keeps a picture of the page in the folder that KARPENTER_TEST_PICTURES names. A folder of this tree would have the tests run again
// that passed, because what they have written counts as what they have read.
func (x *Tab) Shot(name string) {
	x.T.Helper()
	dir := os.Getenv("KARPENTER_TEST_PICTURES")
	if dir == "" {
		return
	}
	data, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		x.T.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		x.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644); err != nil {
		x.T.Fatal(err)
	}
}
