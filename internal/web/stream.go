package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

const (
	// lookEvery is how often a stream looks for something new; looking costs what has changed. It is a quarter of the 200 ms that
	// an update may take to the eye.
	lookEvery = 50 * time.Millisecond
	// workShare is the part of the time that a stream may look, one in so many, and workBurst what it may take of that in advance:
	// one look that takes long, because much has changed or the computer is busy, does not hold up the next.
	workShare = 10
	workBurst = 100 * time.Millisecond
	// aliveEvery keeps proxies from closing a silent stream, and tells the page that the line is up.
	aliveEvery = 10 * time.Second
	// authorizeEvery is how soon a stream ends for somebody who may not look any more.
	authorizeEvery = time.Minute
	// writeTimeout ends a stream whose reader is gone without a word.
	writeTimeout = 20 * time.Second
	// maxStreams bounds how many pages are served at once.
	maxStreams = 64
)

// write sends JSON, compressed if the reader takes it.
func write(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Vary", "Accept-Encoding")
	const worthwhile = 4 << 10
	if len(data) < worthwhile || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(data)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return
	}
	_, _ = z.Write(data)
	_ = z.Close()
}

// answer sends a value as JSON.
func answer(w http.ResponseWriter, r *http.Request, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	write(w, r, data)
}

// fleet answers with the whole model.
func (s *Server) fleet(w http.ResponseWriter, r *http.Request) {
	s.hub.refresh()
	data, _ := s.hub.since("", 0, s.src.Now())
	write(w, r, data)
}

// fleetNodes answers with a row for each node, whether it could go and why not, and with what pods wait for: what karpenter top
// shows. Nothing is decided for it: what was decided last counts.
func (s *Server) fleetNodes(w http.ResponseWriter, r *http.Request) {
	if !s.begin(r) {
		return
	}
	defer s.end()
	c := s.src.Explain()
	if c == nil {
		refuse(w, http.StatusServiceUnavailable, "the controller has not seen the cluster yet; ask again in a moment")
		return
	}
	plan, at := s.src.Plan()
	fleet := c.Fleet(plan, at, s.src.Now())
	if d, in, _ := s.src.Decision(); d != nil && in != nil {
		fleet.Apply(model.Judge(in.World, d))
	}
	answer(w, r, fleet)
}

// reader is one stream.
type reader struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	run     string
	version uint64
	// silent is how long nothing has been sent, unasked since when Authorize has not been asked.
	silent, unasked time.Duration
}

// stream sends what changes, as server-sent events: "fleet" with a change of the model, "decision" with an entry of the ledger,
// and "missed" when there were more entries than could be kept. A reader that has a model says which.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are open already; close one", maxStreams))
		return
	}
	defer s.streams.Add(-1)
	version, _ := strconv.ParseUint(r.FormValue("version"), 10, 64)
	x := &reader{s: s, w: w, r: r, control: http.NewResponseController(w), run: r.FormValue("run"), version: version}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	entries, stop := s.src.Ledger().Watch()
	defer stop()
	x.follow(entries)
}

// follow sends until the reader is gone or may not look any more.
func (x *reader) follow(entries <-chan *ledger.Entry) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	pause, debt := time.Duration(0), time.Duration(0)
	for {
		select {
		case <-x.r.Context().Done():
			return
		case <-wait.C:
		}
		begin := x.s.src.Now()
		if !x.allowed(pause) || !x.model() || !x.decisions(entries) || !x.alive(pause) {
			return
		}
		pause, debt = rest(debt, x.s.src.Now().Sub(begin))
		wait.Reset(pause)
	}
}

// rest is how long a stream waits after work of some length, and what of all its work is then not made up for by waiting.
func rest(debt, work time.Duration) (pause, left time.Duration) {
	debt += work
	pause = max(lookEvery, workShare*(debt-workBurst))
	return pause, max(0, debt-pause/workShare)
}

func (x *reader) allowed(passed time.Duration) bool {
	if x.unasked += passed; x.s.opt.Authorize == nil || x.unasked < authorizeEvery {
		return true
	}
	x.unasked = 0
	return x.s.opt.Authorize(x.r) == nil
}

func (x *reader) model() bool {
	x.s.hub.refresh()
	data, version := x.s.hub.since(x.run, x.version, x.s.src.Now())
	if data == nil {
		return true
	}
	x.run, x.version = x.s.hub.run, version
	return x.send("fleet", data)
}

func (x *reader) decisions(entries <-chan *ledger.Entry) bool {
	if len(entries) == cap(entries) {
		for len(entries) > 0 {
			<-entries
		}
		return x.send("missed", []byte("{}"))
	}
	for {
		select {
		case e := <-entries:
			data, err := json.Marshal(e.Document())
			if err != nil {
				continue
			}
			if !x.send("decision", data) {
				return false
			}
		default:
			return true
		}
	}
}

func (x *reader) alive(passed time.Duration) bool {
	if x.silent += passed; x.silent < aliveEvery {
		return true
	}
	return x.send("alive", []byte("{}"))
}

func (x *reader) send(event string, data []byte) bool {
	x.silent = 0
	return x.put(event, data) == nil
}

// put writes one event; JSON has no line break in it.
func (x *reader) put(event string, data []byte) error {
	// The package has no clock to make a deadline with: a timer makes one that has passed.
	late := time.AfterFunc(writeTimeout, func() { _ = x.control.SetWriteDeadline(time.Unix(1, 0)) })
	defer late.Stop()
	if _, err := fmt.Fprintf(x.w, "event: %s\ndata: ", event); err != nil {
		return err
	}
	if _, err := x.w.Write(append(data, '\n', '\n')); err != nil {
		return err
	}
	return x.control.Flush()
}
