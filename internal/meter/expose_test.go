package meter

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// told is every series as a line of text, in order.
func told(families []*dto.MetricFamily) (lines []string) {
	for _, f := range families {
		for _, m := range f.Metric {
			m.Label = slices.DeleteFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == "" }) // Prometheus takes both for the same
			slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return bytes.Compare([]byte(a.GetName()), []byte(b.GetName())) })
			lines = append(lines, fmt.Sprint(f.GetName(), " ", f.GetType(), " ", f.GetHelp(), " ", m.String()))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestScrapeIsWhatARegistryGathers: what is written without Prometheus' library is read by it as what the library would have written.
func TestScrapeIsWhatARegistryGathers(t *testing.T) {
	s, reg := newSet(t)
	s.Add(NodesCreated, 3, "nodepool", `a "quoted" pool\`)
	s.Observe(SchedulingDuration, 1.5, "controller", "provisioner")
	s.Live(PodsState, func(show Show) {
		for i, name := range []string{"plain", `back\slash`, "two\nlines", `"quoted"`, "ümläut", "none\xff"} {
			show(float64(i), "namespace", "d", "name", name)
		}
	})
	s.Live(ClusterUtilization, func(show Show) {
		for i, v := range []float64{0, -1.25, 1e21, 1e-7, math.Inf(1), math.Inf(-1)} {
			show(v, "resource_type", fmt.Sprint(i))
		}
	})
	s.Live(PodsUnboundTime, func(Show) {})
	other := prometheus.NewRegistry()
	other.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "other_total", Help: "Of another registry."}))
	for _, encoding := range []string{"", "gzip"} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		s.Handler(other).ServeHTTP(w, r)
		var body io.Reader = w.Body
		if encoding != "" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		parsed, err := parser.TextToMetricFamilies(body)
		if err != nil {
			t.Fatal(err)
		}
		var got []*dto.MetricFamily
		for _, f := range parsed {
			got = append(got, f)
		}
		gathered, err := prometheus.Gatherers{reg, other}.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer // a registry's own text, read back, since text leaves out what a registry knows besides
		for _, f := range gathered {
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				t.Fatal(err)
			}
		}
		again, err := parser.TextToMetricFamilies(&text)
		if err != nil {
			t.Fatal(err)
		}
		var want []*dto.MetricFamily
		for _, f := range again {
			want = append(want, f)
		}
		if g, w := told(got), told(want); !slices.Equal(g, w) || len(g) < 15 {
			t.Errorf("%q: got %d series, want %d\n%v\n%v", encoding, len(g), len(w), g, w)
		}
	}
}

// BenchmarkScrape is a scrape of 20,000 pods and 1,000 nodes.
func BenchmarkScrape(b *testing.B) {
	s := New(prometheus.NewRegistry(), benchCloud())
	benchSeries(s)
	handler := s.Handler()
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(&discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}

// benchCloud has as many labels of nodes as are filled on a common node.
func benchCloud() Cloud {
	c := testCloud
	for i := len(wellKnown); i < 22; i++ {
		c.NodeLabels = append(c.NodeLabels, fmt.Sprintf("example.com/instance-property-%d", i))
	}
	return c
}

func benchSeries(s *Set) {
	labels := map[string]string{}
	for _, key := range s.wellKnown {
		labels[key] = "value-of-" + Snake(key)
	}
	var pods, nodes []string
	for i := range 20_000 {
		pods = append(pods, fmt.Sprintf("web-5d9c7b8f9-%05d", i))
	}
	for i := range 1000 {
		nodes = append(nodes, fmt.Sprintf("ip-10-0-%d.ec2.internal", i))
	}
	s.Live(PodsState, func(show Show) {
		for _, name := range pods {
			show(1, "name", name, "namespace", "default", "node", "ip-10-0-0-1", "zone", "us-west-2a", "phase", "Running", "ready", "true", "scheduled", "true")
		}
	})
	for _, name := range []Name{NodesAllocatable, NodesTotalPodRequests, NodesTotalPodLimits, NodesTotalDaemonRequests, NodesTotalDaemonLimits, NodesSystemOverhead} {
		s.Live(name, func(show Show) {
			for _, node := range nodes {
				named := s.NodeLabels(labels, "node_name", node)
				for _, resource := range []string{"cpu", "memory", "pods", "ephemeral-storage"} {
					show(1, append(named, "resource_type", resource)...)
				}
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func BenchmarkPromhttp(b *testing.B) {
	reg := prometheus.NewRegistry()
	s := New(reg, benchCloud())
	benchSeries(s)
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{DisableCompression: true})
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(&discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
