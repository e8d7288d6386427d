package simaws

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Advancer is a clock that can be moved; with one, POST /_sim/clock works.
type Advancer interface{ Advance(d time.Duration) }

// InstanceView is an instance as the control API shows it.
type InstanceView struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Zone      string    `json:"zone"`
	Lifecycle string    `json:"lifecycle"`
	State     string    `json:"state"`
	Joined    bool      `json:"joined"`
	Launched  time.Time `json:"launched"`
	Console   string    `json:"console,omitempty"`
	// Price is what it costs an hour now, in USD.
	Price float64           `json:"price"`
	Tags  map[string]string `json:"tags,omitempty"`
}

// serveControl answers /_sim/. Every change is a POST of JSON; what can be
// removed is removed by DELETE.
func (s *Sim) serveControl(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/_sim/")
	do, ok := controls[what]
	if !ok {
		http.Error(w, "no such control: "+what+"; known: "+strings.Join(sortedKeys(controls), ", "), http.StatusNotFound)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxState)
	answer, err := do(s, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if f, ok := answer.(func(http.ResponseWriter) error); ok {
		if err := f(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		return
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// maxState bounds a state that is uploaded.
const maxState = 1 << 30

type control func(s *Sim, r *http.Request) (any, error)

var done = map[string]bool{"ok": true}

// apply makes a control out of a method that takes a decoded body.
func apply[T any](do func(*Sim, T) error) control {
	return func(s *Sim, r *http.Request) (any, error) {
		var in T
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		return done, do(s, in)
	}
}

// instancesBody names instances in requests that need no more.
type instancesBody struct {
	Region    string   `json:"region,omitempty"`
	Instances []string `json:"instances"`
	Follow    bool     `json:"follow,omitempty"`
	EventType string   `json:"eventType,omitempty"`
}

type shiftBody struct {
	Region   string   `json:"region,omitempty"`
	Cluster  string   `json:"cluster"`
	ZoneID   string   `json:"zoneId"`
	Duration Duration `json:"duration"`
}

type keyBody struct {
	AccessKey string `json:"accessKey"`
	Role      string `json:"role"`
}

var controls = map[string]control{
	"POST faults":   apply((*Sim).AddFault),
	"DELETE faults": func(s *Sim, _ *http.Request) (any, error) { s.ClearFaults(); return done, nil },
	"POST stock":    apply((*Sim).SetStock),
	"DELETE stock":  func(s *Sim, _ *http.Request) (any, error) { s.ClearStock(); return done, nil },
	"POST quotas":   apply(func(s *Sim, q Quotas) error { s.SetQuotas(q); return nil }),
	"POST keys":     apply(func(s *Sim, b keyBody) error { return s.RegisterKey(b.AccessKey, b.Role) }),
	"POST health":   apply((*Sim).SetHealth),
	"POST shift": apply(func(s *Sim, b shiftBody) error {
		return s.Shift(b.Region, b.Cluster, b.ZoneID, time.Duration(b.Duration))
	}),
	"POST interrupt": apply(func(s *Sim, b instancesBody) error { return s.Interrupt(b.Region, b.Instances...) }),
	"POST rebalance": apply(func(s *Sim, b instancesBody) error { return s.Rebalance(b.Region, b.Follow, b.Instances...) }),
	"POST health-event": apply(func(s *Sim, b instancesBody) error {
		return s.SendHealthEvent(b.Region, orDefault(b.EventType, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"), b.Instances...)
	}),
	"POST storm": func(s *Sim, r *http.Request) (any, error) {
		var spec StormSpec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
			return nil, err
		}
		ids, err := s.Storm(spec)
		return map[string][]string{"interrupted": ids}, err
	},
	"POST reservations": func(s *Sim, r *http.Request) (any, error) {
		var spec ReservationSpec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
			return nil, err
		}
		id, err := s.AddReservation(spec)
		return map[string]string{"id": id}, err
	},
	"POST clock": func(s *Sim, r *http.Request) (any, error) {
		var in struct{ Advance Duration }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return nil, err
		}
		a, ok := s.opt.Clock.(Advancer)
		if !ok {
			return nil, errRealClock
		}
		a.Advance(time.Duration(in.Advance))
		s.Tick()
		return map[string]time.Time{"now": s.now()}, nil
	},
	"GET clock":      func(s *Sim, _ *http.Request) (any, error) { return map[string]time.Time{"now": s.now()}, nil },
	"GET operations": func(*Sim, *http.Request) (any, error) { return Operations(), nil },
	"GET instances": func(s *Sim, r *http.Request) (any, error) {
		return s.Instances(r.URL.Query().Get("region"))
	},
	"GET state": func(s *Sim, _ *http.Request) (any, error) {
		return func(w http.ResponseWriter) error { return s.Save(w) }, nil
	},
	"PUT state": func(s *Sim, r *http.Request) (any, error) { return done, s.Load(r.Body) },
}

var errRealClock = fail("Unsupported", "this world runs on the real clock, which cannot be moved")

// Glimpse is the part of an instance that can be shown without working anything out. Tag looks a tag up.
type Glimpse struct {
	ID, Type, Zone, Lifecycle, State, NodeName string
	Launched                                   time.Time
	Tag                                        func(key string) (string, bool)
}

// EachInstance shows the default account's instances of a region in the order in
// which they were launched, as Instances does, for who looks often.
func (s *Sim) EachInstance(region string, visit func(Glimpse)) error {
	return s.inRegion(region, func(p place) error {
		for in := range p.reg.Instances.each {
			visit(Glimpse{in.ID, in.Type, in.Zone, orDefault(in.Lifecycle, "on-demand"), in.state(), in.PrivateDNS, in.Launched, in.Tags.get})
		}
		return nil
	})
}

// Image is the id of the default account's image with a name, "" for none.
func (s *Sim) Image(region, name string) (id string, err error) {
	err = s.inRegion(region, func(p place) error {
		for image := range p.reg.Images.each {
			if image.Name == name {
				id = image.ID
			}
		}
		return nil
	})
	return id, err
}

// Instances lists the default account's instances of a region in the order they
// were launched, terminated ones included while they are remembered.
func (s *Sim) Instances(region string) ([]InstanceView, error) {
	out := []InstanceView{}
	err := s.inRegion(region, func(p place) error {
		for in := range p.reg.Instances.each {
			out = append(out, InstanceView{in.ID, in.Type, in.Zone, orDefault(in.Lifecycle, "on-demand"), in.state(), in.Joined, in.Launched, in.Console, p.priceOf(in), in.Tags.asMap()})
		}
		return nil
	})
	return out, err
}
