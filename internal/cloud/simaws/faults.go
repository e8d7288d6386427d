package simaws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Duration is a time.Duration that reads and writes as text, such as "2m".
type Duration time.Duration

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the text form.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is text such as \"90s\": %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// FaultKind says what a fault does.
type FaultKind string

// The kinds of faults.
const (
	// FaultError answers with Code, Message and Status instead of acting.
	FaultError FaultKind = "error"
	// FaultLatency waits for Delay before acting.
	FaultLatency FaultKind = "latency"
	// FaultDrop acts and then drops the connection without an answer.
	FaultDrop FaultKind = "drop"
	// FaultHang acts and then never answers: the connection stays open until the
	// client gives up.
	FaultHang FaultKind = "hang"
	// FaultBare answers a repeated CreateFleet with the fleet's id alone. AWS
	// says no more than that a repetition succeeds.
	FaultBare FaultKind = "bare"
	// FaultUntagged makes a describe show instances that are younger than Delay
	// without their tags.
	FaultUntagged FaultKind = "untagged"
	// FaultStale makes a describe show the world as it was Delay ago.
	FaultStale FaultKind = "stale"
	// FaultEmpty makes a describe show nothing.
	FaultEmpty FaultKind = "empty"
	// FaultNeverJoin makes instances launched by matching calls boot and never
	// register.
	FaultNeverJoin FaultKind = "never-join"
	// FaultSlowJoin adds Delay to the time they take to register.
	FaultSlowJoin FaultKind = "slow-join"
)

// Fault makes matching calls go wrong. Nth, Percent and Count restrict which:
// with none of them, every matching call is hit.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Action is a pattern such as ec2:CreateFleet or ec2:Describe*.
	Action string `json:"action"`
	// Type and Zone are patterns that never-join and slow-join also look at.
	Type string `json:"type,omitempty"`
	Zone string `json:"zone,omitempty"`
	// Nth hits only the n-th matching call, counted from 1.
	Nth int `json:"nth,omitempty"`
	// Percent hits that share of calls, by the world's seed.
	Percent float64 `json:"percent,omitempty"`
	// Count ends the fault after so many hits.
	Count   int      `json:"count,omitempty"`
	Code    string   `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Status  int      `json:"status,omitempty"`
	Delay   Duration `json:"delay,omitempty"`

	seen, hits int
}

// Check says what is wrong with the fault, or nil.
func (f *Fault) Check() error {
	switch f.Kind {
	case FaultError:
		if f.Code == "" {
			return errors.New("fault: kind error needs a code, such as InternalError")
		}
	case FaultLatency, FaultStale, FaultSlowJoin, FaultUntagged:
		if f.Delay <= 0 {
			return fmt.Errorf("fault: kind %s needs a delay above zero", f.Kind)
		}
	case FaultDrop, FaultHang, FaultBare, FaultEmpty, FaultNeverJoin:
	default:
		return fmt.Errorf("fault: kind %q is not error, latency, drop, hang, bare, untagged, stale, empty, never-join or slow-join", f.Kind)
	}
	if f.Percent < 0 || f.Percent > 100 {
		return fmt.Errorf("fault: percent %g is not between 0 and 100", f.Percent)
	}
	return nil
}

// hits counts a matching call and says whether it is hit.
func (s *Sim) hits(f *Fault) bool {
	f.seen++
	switch {
	case f.Count > 0 && f.hits >= f.Count:
		return false
	case f.Nth > 0 && f.seen != f.Nth:
		return false
	case f.Percent > 0 && s.rng.Float64()*100 >= f.Percent:
		return false
	}
	f.hits++
	return true
}

// struck is the faults that hit one call.
type struck []*Fault

func (s *Sim) faultFor(c *call) struck {
	s.mu.RLock()
	none := len(s.faults) == 0
	s.mu.RUnlock()
	if none {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out struck
	for _, f := range s.faults {
		if f.Kind != FaultNeverJoin && f.Kind != FaultSlowJoin && wildcard(orDefault(f.Action, "*"), c.iamAction()) && s.hits(f) {
			out = append(out, f)
		}
	}
	return out
}

// before applies what happens ahead of the operation.
func (h struck) before(ctx context.Context, clock Clock, c *call) error {
	for _, f := range h {
		switch f.Kind {
		case FaultLatency:
			select {
			case <-clock.After(time.Duration(f.Delay)):
				c.at = c.now()
			case <-ctx.Done():
				return errHangUp
			}
		case FaultError:
			status := f.Status
			if status == 0 {
				status = http.StatusBadRequest
			}
			return fail(f.Code, "%s", orDefault(f.Message, "The call failed by order of a fault.")).withStatus(status)
		case FaultStale:
			c.behind = time.Duration(f.Delay)
		case FaultEmpty:
			c.empty = true
		case FaultBare:
			c.bare = true
		case FaultUntagged:
			c.untagged = time.Duration(f.Delay)
		}
	}
	return nil
}

// after says whether the answer is lost, at once or when the client has given up.
func (h struck) after(ctx context.Context) (lost bool) {
	for _, f := range h {
		switch f.Kind {
		case FaultDrop:
			return true
		case FaultHang:
			<-ctx.Done()
			return true
		}
	}
	return false
}

// errHangUp ends a call without an answer.
var errHangUp = errors.New("connection dropped by a fault")

func hangUp(w http.ResponseWriter) {
	// A server that cannot hijack (HTTP/2, a recorder) aborts instead, which
	// the client sees the same way.
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// applyLaunchFaults decides at launch whether and when an instance will join.
func (c *call) applyLaunchFaults(in *instance) {
	in.JoinAfter = c.opt.Timing.Join
	for _, f := range c.faults {
		if f.Kind != FaultNeverJoin && f.Kind != FaultSlowJoin {
			continue
		}
		if !wildcard(orDefault(f.Type, "*"), in.Type) || !wildcard(orDefault(f.Zone, "*"), in.Zone) || !c.hits(f) {
			continue
		}
		if f.Kind == FaultNeverJoin {
			in.NeverJoins = true
			in.Console += "[simulator] a fault keeps this instance from joining its cluster\n"
		} else {
			in.JoinAfter += time.Duration(f.Delay)
		}
	}
}
