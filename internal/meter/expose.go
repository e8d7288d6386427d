package meter

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Handler serves the metrics of the set and of others, in Prometheus' text form. Live gauges are written as they are made: a scrape of
// a large cluster has a hundred thousand series, and as objects they would be half as large as all that the controller knows.
func (s *Set) Handler(others ...prometheus.Gatherer) http.Handler {
	from := append(prometheus.Gatherers{s.kept}, others...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := expfmt.NewFormat(expfmt.TypeTextPlain)
		w.Header().Set("Content-Type", string(format))
		to, end := compressed(w, r)
		defer end()
		out := bufio.NewWriterSize(to, 32<<10)
		encoder := expfmt.NewEncoder(out, format)
		found, _ := from.Gather() // what is wrong with one metric keeps no other from being shown
		for _, f := range found {
			if encoder.Encode(f) != nil {
				return // the scraper has gone
			}
		}
		for _, name := range s.order {
			s.families[name].write(out)
		}
		_ = out.Flush() // likewise
	})
}

// keptOnly is a family as a registry collects it whose live gauges are written in another way.
type keptOnly struct{ *family }

// Collect implements prometheus.Collector.
func (k keptOnly) Collect(metrics chan<- prometheus.Metric) {
	if k.made() == nil {
		k.family.Collect(metrics)
	}
}

var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one that there is
	return z
}}

// compressed is where the answer to a request is to be written, and how that ends.
func compressed(w http.ResponseWriter, r *http.Request) (to io.Writer, end func()) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := zippers.Get().(*gzip.Writer)
	z.Reset(w)
	return z, func() {
		_ = z.Close() // the scraper has gone
		zippers.Put(z)
	}
}

// write writes the series of a live gauge.
func (f *family) write(out *bufio.Writer) {
	live := f.made()
	if live == nil {
		return
	}
	name, begun := f.metric.Full(), false
	var number []byte
	live(func(values []string, v float64) {
		if !begun {
			begun = true
			out.WriteString("# HELP " + name + " " + escape(f.metric.Help, false) + "\n# TYPE " + name + " gauge\n")
		}
		out.WriteString(name)
		mark := byte('{')
		for _, i := range f.order {
			if values[i] == "" {
				continue
			}
			out.WriteByte(mark)
			mark = ','
			out.WriteString(f.metric.Labels[i])
			out.WriteString(`="`)
			out.WriteString(escape(values[i], true))
			out.WriteByte('"')
		}
		if mark == ',' {
			out.WriteByte('}')
		}
		out.WriteByte(' ')
		number = strconv.AppendFloat(number[:0], v, 'g', -1, 64)
		out.Write(number)
		out.WriteByte('\n')
	})
}

var (
	escaper       = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	quotedEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func escape(text string, quoted bool) string {
	if quoted {
		return quotedEscaper.Replace(text)
	}
	return escaper.Replace(text)
}
