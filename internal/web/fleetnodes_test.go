package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/web"
)

// workedOut is the fleet as it comes of a recording alone.
func workedOut(tb testing.TB, recording []byte) *model.Fleet {
	tb.Helper()
	r, err := ledger.Read(recording)
	if err != nil {
		tb.Fatal(err)
	}
	view, _, err := r.View()
	if err != nil {
		tb.Fatal(err)
	}
	snap, in := r.World(view), r.Input(view)
	opt := r.Options.Disrupt()
	opt.Pack.Workers = runtime.NumCPU()
	fleet := model.NewFleet(model.Outlook{View: view, World: snap, Plan: pack.Solve(snap, opt.Pack), PlanAt: r.At}, r.At)
	fleet.Apply(model.Judge(in.World, disrupt.Decide(in, opt, r.At)))
	return fleet
}

func TestRowsAreThoseOfTheRecording(t *testing.T) {
	for name, clock := range map[string]func() time.Time{"while nodes stay": stopped, "while nodes go": sunday} {
		t.Run(name, func(t *testing.T) {
			c := smallCluster(t, clock)
			h := web.Handler(c, web.Options{})
			got := read[model.Fleet](t, h, "/api/v1/fleet/nodes")
			want := workedOut(t, get(t, h, "/api/v1/recording").Body.Bytes())
			if d := cmp.Diff(want, &got); d != "" {
				t.Errorf("rows differ from those of the recording (-recording +rows):\n%s", d)
			}
			if got.Totals.Nodes != 24 || got.Totals.Pending != 7 || !got.Decided {
				t.Errorf("%+v", got.Totals)
			}
		})
	}
}

// What was decided earlier is shown as far as it still holds.
func TestRowsWithAnOlderPlan(t *testing.T) {
	c := smallCluster(t, sunday)
	stuck := "shop/" + c.stuck()
	c.addPod("late", 100, 100, "")
	got := read[model.Fleet](t, web.Handler(c, web.Options{}), "/api/v1/fleet/nodes")
	waits := map[string]string{}
	for _, w := range got.Pending {
		for _, p := range w.Pods {
			waits[p] = w.Summary
		}
	}
	late := ""
	for p, what := range waits {
		if strings.HasPrefix(p, "shop/late-") {
			late = what
		}
	}
	if late != "the next plan: it is new" || !strings.Contains(waits[stuck], "cpu") || len(waits) != 8 || got.Totals.Pending != 8 {
		t.Errorf("pods wait for %v", waits)
	}
}

// BenchmarkRows says what karpenter top asks of a controller with a thousand nodes and twenty thousand pods: rows, and the recording that
// it asked for before, with what each costs whoever reads it.
func BenchmarkRows(b *testing.B) {
	c := newCluster(sunday)
	c.fill(1000, 20)
	c.decide()
	h := web.Handler(c, web.Options{})
	for _, x := range []struct {
		name, path string
		use        func([]byte)
	}{
		{"rows", "/api/v1/fleet/nodes", func(data []byte) {
			if err := json.Unmarshal(data, &model.Fleet{}); err != nil {
				b.Fatal(err)
			}
		}},
		{"fleet", "/api/v1/fleet", func([]byte) {}},
		{"recording", "/api/v1/recording", func(data []byte) { workedOut(b, data) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			for range b.N {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, x.path, nil))
				if w.Code != http.StatusOK {
					b.Fatal(fmt.Sprint(w.Code, w.Body))
				}
				b.ReportMetric(float64(w.Body.Len())/1024, "KiB")
				x.use(bytes.Clone(w.Body.Bytes()))
			}
			r := httptest.NewRequest(http.MethodGet, x.path, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			b.ReportMetric(float64(w.Body.Len())/1024, "KiB-zipped")
		})
	}
}
