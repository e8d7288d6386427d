package web

import (
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"karpenter/internal/model"
)

// maxSamples bounds the history: a chart has no more points across than that.
const maxSamples = 1000

// sample is the cluster's figures at one moment: seconds since 1970, $/h, nodes, pods, pods that wait, and the parts of CPU and
// memory that pods ask for.
type sample [7]float64

// samples keeps figures since the start. When it is full every other one goes, and from then on they are taken half as often.
type samples struct {
	mu   sync.Mutex
	list []sample
	step time.Duration
	last time.Time
}

// due says whether it is time for the next sample.
func (s *samples) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.IsZero() || now.Sub(s.last) >= max(s.step, sampleEvery)
}

// add keeps a sample; those of a controller that has not seen the cluster yet say nothing.
func (s *samples) add(now time.Time, x sample, seen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.last = max(s.step, sampleEvery), now
	if !seen {
		return
	}
	if len(s.list) >= maxSamples {
		for i := range len(s.list) / 2 {
			s.list[i] = s.list[2*i]
		}
		s.list, s.step = s.list[:len(s.list)/2], 2*s.step
	}
	s.list = append(s.list, x)
}

// sampleOf takes the figures out of totals.
func sampleOf(now time.Time, t *model.Totals) sample {
	return sample{float64(now.Unix()), t.PerHour, float64(t.Nodes), float64(t.PodSlots.Requested), float64(t.Pending), short(t.CPU.Share()), short(t.Memory.Share())}
}

// short leaves the digits of a share out that no chart shows.
func short(share float64) float64 { return math.Round(1e4*share) / 1e4 }

// historyDocument is the figures of the past. Each sample is a list: seconds since 1970, $/h, nodes, pods on nodes, pending pods, and
// the shares of CPU and memory that pods request.
type historyDocument struct {
	model.Type
	StepSeconds float64  `json:"stepSeconds"`
	Samples     []sample `json:"samples"`
}

// history answers with the figures since the start.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	s.hub.refresh()
	s.hub.samples.mu.Lock()
	data, err := json.Marshal(&historyDocument{model.TypeOf(model.KindHistory), max(s.hub.samples.step, sampleEvery).Seconds(), append([]sample{}, s.hub.samples.list...)})
	s.hub.samples.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	write(w, r, data)
}
