package simaws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// AddFault makes matching calls go wrong from now on.
func (s *Sim) AddFault(f Fault) error {
	if err := f.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
	return nil
}

// ClearFaults removes all faults.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// SetStock adds a stock rule; it governs the pools it matches from now on.
func (s *Sim) SetStock(r StockRule) error {
	if r.Count < 0 {
		return fmt.Errorf("stock: count %d is negative", r.Count)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Stock = append(s.st.Stock, &r)
	// A pool that an older rule had opened starts again under this one.
	for key := range s.st.Pools {
		part := strings.Split(key, "/")
		if s.ruleFor(part[1], part[2], part[3]) == &r {
			delete(s.st.Pools, key)
		}
	}
	return nil
}

// ClearStock removes all stock rules: no pool runs dry any more.
func (s *Sim) ClearStock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Stock = nil
	clear(s.st.Pools)
}

// StormSpec is a spot storm: in matching zones prices rise by Factor for
// Duration, and Percent of the running spot instances are interrupted now.
type StormSpec struct {
	Region   string   `json:"region,omitempty"`
	Zone     string   `json:"zone"`
	Factor   float64  `json:"factor,omitempty"`
	Duration Duration `json:"duration"`
	Percent  float64  `json:"percent"`
}

// Storm starts a spot storm and says which instances it takes.
func (s *Sim) Storm(spec StormSpec) ([]string, error) {
	if spec.Percent < 0 || spec.Percent > 100 || spec.Duration < 0 {
		return nil, fmt.Errorf("storm: percent %g must be 0 to 100 and the duration not negative", spec.Percent)
	}
	var hit []string
	err := s.inRegion(spec.Region, func(p place) error {
		now := p.now()
		p.st.Storm = append(slices.DeleteFunc(p.st.Storm, func(o *storm) bool { return !now.Before(o.Until) }),
			&storm{p.reg.Name, orDefault(spec.Zone, "*"), max(spec.Factor, 1), now.Add(time.Duration(spec.Duration))})
		for in := range p.reg.Instances.each {
			if in.Lifecycle == "spot" && in.alive() && wildcard(orDefault(spec.Zone, "*"), in.Zone) && p.rng.Float64()*100 < spec.Percent {
				p.interrupt(in, now)
				hit = append(hit, in.ID)
			}
		}
		return nil
	})
	return hit, err
}

// inRegion runs do on the default account's part of a region, up to date and
// under the lock.
func (s *Sim) inRegion(name string, do func(place) error) error {
	s.mu.Lock()
	s.catchUp(s.now())
	a := s.account(s.opt.Account)
	r, err := s.region(a, orDefault(name, s.opt.Region))
	if err == nil {
		err = do(place{s, a, r})
	}
	s.mu.Unlock()
	s.deliver()
	return err
}

// onInstances applies do to each named instance of the default account's
// region.
func (s *Sim) onInstances(region string, ids []string, do func(place, *instance) error) error {
	return s.inRegion(region, func(p place) error {
		for _, id := range ids {
			in := p.reg.Instances.get(id)
			if in == nil {
				return fmt.Errorf("instance %s does not exist in %s", id, p.reg.Name)
			}
			if err := do(p, in); err != nil {
				return err
			}
		}
		return nil
	})
}

// Interrupt sends an interruption warning for the instances and takes them
// back when the notice is over. Only spot instances and those in interruptible
// reservations can be interrupted.
func (s *Sim) Interrupt(region string, ids ...string) error {
	return s.onInstances(region, ids, func(p place, in *instance) error {
		if in.Lifecycle != "spot" && in.Lifecycle != "interruptible-capacity-reservation" {
			return fmt.Errorf("instance %s is %s and cannot be interrupted", in.ID, orDefault(in.Lifecycle, "on-demand"))
		}
		p.interrupt(in, p.now())
		return nil
	})
}

// Rebalance sends a rebalance recommendation, and with follow the interruption
// after the usual time.
func (s *Sim) Rebalance(region string, follow bool, ids ...string) error {
	return s.onInstances(region, ids, func(p place, in *instance) error {
		p.sendRebalance(in, p.now())
		if follow && !in.Reclaim {
			in.Reclaim = true
			p.after(p.now(), p.opt.Timing.Rebalance, "warn", in.ID)
		}
		return nil
	})
}

// HealthSpec changes what DescribeInstanceStatus says of instances. Check is
// instance, system or ebs; Impaired sets or clears it. Event, if set, is added.
type HealthSpec struct {
	Region    string          `json:"region,omitempty"`
	Instances []string        `json:"instances"`
	Check     string          `json:"check,omitempty"`
	Impaired  bool            `json:"impaired,omitempty"`
	Event     *ScheduledEvent `json:"event,omitempty"`
}

// SetHealth changes status checks and scheduled events.
func (s *Sim) SetHealth(spec HealthSpec) error {
	if !slices.Contains([]string{"", "instance", "system", "ebs"}, spec.Check) {
		return fmt.Errorf("health: check %q is not instance, system or ebs", spec.Check)
	}
	return s.onInstances(spec.Region, spec.Instances, func(p place, in *instance) error {
		var since time.Time
		if spec.Impaired {
			since = p.now()
		}
		switch spec.Check {
		case "instance":
			in.Health.InstanceImpairedSince = since
		case "system":
			in.Health.SystemImpairedSince = since
		case "ebs":
			in.Health.EBSImpairedSince = since
		}
		if spec.Event != nil {
			e := *spec.Event
			e.ID = orDefault(e.ID, p.id("instance-event-", 17))
			in.Health.Events = append(in.Health.Events, e)
		}
		return nil
	})
}

// SendHealthEvent publishes an AWS Health event about instances, such as a
// scheduled retirement.
func (s *Sim) SendHealthEvent(region, eventTypeCode string, ids ...string) error {
	return s.inRegion(region, func(p place) error {
		entities := []any{}
		for _, id := range ids {
			entities = append(entities, map[string]any{"entityValue": id})
		}
		now := p.now()
		p.dispatch(now, event{DetailType: "AWS Health Event", Source: "aws.health", Resources: ids, Detail: map[string]any{
			"service": "EC2", "eventTypeCategory": "scheduledChange", "eventTypeCode": eventTypeCode, "affectedEntities": entities,
			"eventArn":  "arn:aws:health:" + p.reg.Name + "::event/EC2/" + eventTypeCode + "/" + p.uuid(),
			"startTime": now.Add(14 * 24 * time.Hour).Format(time.RFC1123), "endTime": now.Add(15 * 24 * time.Hour).Format(time.RFC1123),
			"eventDescription": []any{map[string]string{"language": "en_US", "latestDescription": "Simulated scheduled change."}},
		}})
		return nil
	})
}

// Shift begins a zonal shift of a cluster away from a zone.
func (s *Sim) Shift(region, cluster, zoneID string, d time.Duration) error {
	return s.inRegion(region, func(p place) error {
		if p.reg.Clusters.get(cluster) == nil {
			return fmt.Errorf("cluster %s does not exist in %s", cluster, p.reg.Name)
		}
		p.shift(p.arn("eks", "cluster/"+cluster), zoneID, d)
		return nil
	})
}

// AddCluster adds an EKS cluster to a region, or replaces it.
func (s *Sim) AddCluster(region string, c Cluster) error {
	if c.Name == "" {
		return errors.New("cluster: the name must not be empty")
	}
	return s.inRegion(region, func(p place) error {
		p.addCluster(c)
		return nil
	})
}

// ReservationSpec is a capacity reservation or, with Block, a capacity block.
type ReservationSpec struct {
	Region string    `json:"region,omitempty"`
	Type   string    `json:"type"`
	Zone   string    `json:"zone"`
	Count  int       `json:"count"`
	Block  bool      `json:"block,omitempty"`
	End    time.Time `json:"end,omitzero"`
	Tags   []Tag     `json:"tags,omitempty"`
}

// AddReservation makes a targeted reservation. Capacity blocks can be had no
// other way, because buying one needs an offering.
func (s *Sim) AddReservation(spec ReservationSpec) (id string, err error) {
	err = s.inRegion(spec.Region, func(p place) error {
		if !p.reg.offers.InZone(spec.Type, spec.Zone) || spec.Count < 1 {
			return fmt.Errorf("reservation: %d × %q in %q is not possible", spec.Count, spec.Type, spec.Zone)
		}
		r := &reservation{
			ID: p.id("cr-", 17), Type: spec.Type, Zone: spec.Zone, Platform: "Linux/UNIX", Match: "targeted", Kind: "default",
			Total: spec.Count, Created: p.now(), End: spec.End, Tags: tagSet{}.with(spec.Tags...),
		}
		if spec.Block {
			r.Kind = "capacity-block"
		}
		p.reg.Reservations.put(r.ID, r)
		id = r.ID
		return nil
	})
	return id, err
}

// SetQuotas changes the default account's quotas.
func (s *Sim) SetQuotas(q Quotas) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account(s.opt.Account).Quotas = q
}

// RegisterKey makes calls signed with an access key run as a role of the
// default account, under its policies.
func (s *Sim) RegisterKey(accessKey, roleName string) error {
	if accessKey == "" {
		return errors.New("key: the access key must not be empty")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(s.opt.Account)
	r := a.IAM.Roles.get(roleName)
	if r == nil {
		return fmt.Errorf("key: role %q does not exist", roleName)
	}
	s.st.Keys[accessKey] = &principal{ARN: "arn:aws:sts::" + a.ID + ":assumed-role/" + r.Name + "/key", Account: a.ID, UserID: r.ID + ":key", Role: r.Name}
	return nil
}

// SetTiming changes the delays of the world; what is under way keeps its own.
func (s *Sim) SetTiming(t Timing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Timing = t.withDefaults()
}

// SetSteadySpot keeps spot prices where they are, or has them move.
func (s *Sim) SetSteadySpot(steady bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.SteadySpot = steady
}

// Save writes the state. Faults and request limits are not part of it.
func (s *Sim) Save(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Clock = s.now()
	if err := json.NewEncoder(w).Encode(s.st); err != nil {
		return fmt.Errorf("saving the simulated world: %w", err)
	}
	return nil
}

// Load replaces the state with one that Save wrote. Times in it are kept, so
// what fell due meanwhile happens at once.
func (s *Sim) Load(r io.Reader) error {
	st := &state{}
	if err := json.NewDecoder(r).Decode(st); err != nil {
		return fmt.Errorf("loading the simulated world: %w", err)
	}
	if st.Accounts == nil || st.Keys == nil || st.Pools == nil {
		return errors.New("loading the simulated world: the file is not a saved state")
	}
	for _, id := range sortedKeys(st.Accounts) {
		for _, name := range sortedKeys(st.Accounts[id].Regions) {
			offers, err := s.cat.Region(name)
			if err != nil {
				return fmt.Errorf("loading the simulated world: %w", err)
			}
			r := st.Accounts[id].Regions[name]
			if r.offers = offers; r.ScalingGroups == nil { // a file of a version that had none
				r.ScalingGroups = newTable[autoScalingGroup]()
			}
			if r.LaunchConfigs == nil {
				r.LaunchConfigs = newTable[launchConfiguration]()
			}
		}
	}
	s.mu.Lock()
	s.st = st
	s.catchUp(s.now())
	s.mu.Unlock()
	s.deliver()
	return nil
}
