package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"karpenter/internal/model"
	"karpenter/internal/state"
)

// SampleEvery is how often figures are taken for charts.
const SampleEvery = 10 * time.Second

// tiers are how far apart samples of an age are kept: a chart of an hour, of six, of a day or of a month has a few hundred points
// each. Every step divides the next one, so that thinning out again and again comes to the same as doing it once.
var tiers = [...]struct{ age, step time.Duration }{
	{time.Hour, SampleEvery},
	{6 * time.Hour, time.Minute},
	{24 * time.Hour, 5 * time.Minute},
	{31 * 24 * time.Hour, time.Hour},
}

const (
	// maxSamples follows from tiers: 360 of the last hour, 300, 216 and 720 before, and one more where a tier begins within a step.
	maxSamples = 360 + 300 + 216 + 720 + len(tiers)
	// maxEncoded bounds what is read of an encoded history; a full one has some 80 KiB before it is compressed.
	maxEncoded = 512 << 10
	// historyVersion is that of the encoding.
	historyVersion = 1
)

// sample is the cluster's figures at one moment: seconds since 1970, $/h, nodes, pods, pending pods, and the shares of CPU and memory
// that pods request.
type sample [7]float64

// History is the cluster's figures of the last month, the older the further apart. It can be written down and read again by another
// process. All methods are safe for concurrent use.
type History struct {
	mu   sync.Mutex
	list []sample // by time
	last time.Time
}

// Take takes a sample of a view if it is time for one.
func (h *History) Take(v *state.View, now time.Time) {
	if v == nil || !h.due(now) {
		return
	}
	rows := make([]*model.FleetNode, len(v.Nodes))
	for i, n := range v.Nodes {
		row := model.NewFleetNode(v.World, n)
		rows[i] = &row
	}
	totals := model.AddUp(rows, len(v.World.Pending))
	h.add(now, &totals)
}

// due says whether it is time for the next sample.
func (h *History) due(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.IsZero() || now.Sub(h.last) >= SampleEvery || now.Before(h.last)
}

// add keeps a sample of totals; those of a controller that has not seen the cluster yet say nothing.
func (h *History) add(now time.Time, t *model.Totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = now
	if t.Nodes+t.Pending == 0 {
		return
	}
	h.list = compact(append(h.list, sampleOf(now, t)), now)
}

// Newest is when the newest sample was taken; zero if there is none.
func (h *History) Newest() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.list) == 0 {
		return time.Time{}
	}
	return time.Unix(int64(h.list[len(h.list)-1][0]), 0)
}

// compact sorts samples and thins them out: of those of an age the first of each step stays. What is of the future, where a clock was
// put back, is dropped.
func compact(list []sample, now time.Time) []sample {
	slices.SortStableFunc(list, func(a, b sample) int { return cmp.Compare(a[0], b[0]) })
	kept, before := list[:0], math.Inf(-1)
	for _, x := range list {
		step, ok := stepOf(now, x)
		if ok && math.Floor(before/step) != math.Floor(x[0]/step) {
			kept = append(kept, x)
		}
		before = x[0]
	}
	return kept
}

// stepOf is how far apart samples of an age are, in seconds.
func stepOf(now time.Time, x sample) (float64, bool) {
	age := now.Sub(time.Unix(int64(x[0]), 0))
	for _, t := range tiers {
		if age < t.age {
			return t.step.Seconds(), age > -time.Second
		}
	}
	return 0, false
}

// encoded is a history as it is written down.
type encoded struct {
	Version int      `json:"version"`
	Samples []sample `json:"samples"`
}

// Encode writes the history down.
func (h *History) Encode() ([]byte, error) {
	h.mu.Lock()
	list := slices.Clone(h.list)
	h.mu.Unlock()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(&encoded{historyVersion, list}); err != nil {
		return nil, fmt.Errorf("writing the history: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("writing the history: %w", err)
	}
	return b.Bytes(), nil
}

// Merge adds a history that was written down, by an earlier process or another replica. If it cannot be read, nothing changes.
func (h *History) Merge(data []byte, now time.Time) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("not a history: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxEncoded+1))
	if err != nil {
		return fmt.Errorf("not a history: %w", err)
	}
	if len(text) > maxEncoded {
		return errors.New("not a history: too long")
	}
	var read encoded
	if err := json.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("not a history: %w", err)
	}
	if read.Version != historyVersion {
		return fmt.Errorf("a history of version %d, this program reads version %d", read.Version, historyVersion)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = compact(append(h.list, read.Samples...), now)
	return nil
}

// sampleOf takes the figures out of totals.
func sampleOf(now time.Time, t *model.Totals) sample {
	return sample{float64(now.Unix()), short(t.PerHour), float64(t.Nodes), float64(t.PodSlots.Requested), float64(t.Pending), short(t.CPU.Share()), short(t.Memory.Share())}
}

// short leaves the digits out that no chart shows.
func short(x float64) float64 { return math.Round(1e4*x) / 1e4 }

// historyDocument is the figures of the past: the last hour every StepSeconds, up to six hours ago every minute, up to a day ago every
// five minutes, up to a month ago every hour. Each sample is a list: seconds since 1970, $/h, nodes, pods on nodes, pending pods, and
// the shares of CPU and memory that pods request.
type historyDocument struct {
	model.Type
	StepSeconds float64  `json:"stepSeconds"`
	Samples     []sample `json:"samples"`
}

// history answers with the figures of the past.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	s.hub.refresh()
	h := s.hub.history
	h.mu.Lock()
	list := append([]sample{}, h.list...)
	h.mu.Unlock()
	answer(w, r, &historyDocument{model.TypeOf(model.KindHistory), SampleEvery.Seconds(), list})
}
