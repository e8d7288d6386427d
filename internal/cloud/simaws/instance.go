package simaws

import (
	"slices"
	"time"
)

// instance is an EC2 instance.
type instance struct {
	ID, Reservation, Type, ImageID, Arch, Platform string
	Zone, ZoneID, Subnet, VPC, Tenancy, KeyName    string
	// Lifecycle is empty for on-demand.
	Lifecycle, SpotRequest, Fleet, ClientToken string
	Template, TemplateVersion                  string
	CapacityReservation, ReservationPreference string
	Groups                                     []string
	ProfileARN, ProfileID                      string
	PrivateIP, PublicIP, IPv6, PrivateDNS      string
	ResourceName                               bool
	ENIs                                       []eni
	Devices                                    []attachedVolume
	Tags                                       tagSet
	UserData                                   string
	Metadata                                   metadataOptions
	Monitoring, Enclave                        bool
	GroupName, GroupID                         string
	Partition                                  int
	Cores, Threads                             int
	NestedVirtualization                       string
	Launched, VisibleAt                        time.Time
	Reason, ReasonCode                         string

	// History holds the states in order; the last is the present one.
	History []stateChange
	// Reclaim says that the end was the provider's, not the user's.
	Reclaim bool

	// Boot behaviour, decided at launch so that faults of that moment count.
	NeverJoins bool
	JoinAfter  time.Duration
	Joined     bool
	// Boots counts how often it has been booted again.
	Boots   int
	Console string

	Health health
	// Addresses is what it takes of its subnet.
	Addresses int
}

type stateChange struct {
	State string
	At    time.Time
}

type eni struct {
	ID, Kind, MAC, IP, DNS, PublicIP, IPv6 string
	Card, Device                           int
	Groups                                 []string
	Tags                                   tagSet
	IPv4Prefixes, IPv6Prefixes             int
	PrimaryIPv6                            bool
	TCPTimeout, UDPStream, UDPTimeout      int
}

type attachedVolume struct {
	Device, Volume      string
	DeleteOnTermination bool
}

// health is what DescribeInstanceStatus shows.
type health struct {
	InstanceImpairedSince, SystemImpairedSince, EBSImpairedSince time.Time
	Events                                                       []ScheduledEvent
}

// ScheduledEvent is a maintenance event of an instance.
type ScheduledEvent struct {
	ID, Code, Description string
	NotBefore, NotAfter   time.Time
}

// State names and their codes.
const (
	statePending      = "pending"
	stateRunning      = "running"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
	stateStopping     = "stopping"
	stateStopped      = "stopped"
)

var stateCodes = map[string]int{
	statePending: 0, stateRunning: 16, stateShuttingDown: 32, stateTerminated: 48, stateStopping: 64, stateStopped: 80,
}

func (in *instance) state() string { return in.History[len(in.History)-1].State }

// stateAt is the state at an earlier time, for describes that lag behind.
func (in *instance) stateAt(t time.Time) string {
	for _, h := range slices.Backward(in.History) {
		if !h.At.After(t) {
			return h.State
		}
	}
	return in.History[0].State
}

// alive says that the instance holds resources.
func (in *instance) alive() bool {
	s := in.state()
	return s != stateTerminated && s != stateShuttingDown
}

// capacityType is the part of the capacity pool key that says how it was bought.
func (in *instance) capacityType() string {
	if in.Lifecycle == "spot" {
		return "spot"
	}
	return "on-demand"
}

// move changes the state, tells EventBridge and remembers when.
func (p place) move(in *instance, state string, at time.Time) {
	in.History = append(in.History, stateChange{state, at})
	p.publishEvent(at, "EC2 Instance State-change Notification", in, map[string]any{"instance-id": in.ID, "state": state})
}

func (p place) becomeRunning(in *instance, at time.Time) {
	if in.state() != statePending {
		return
	}
	p.move(in, stateRunning, at)
	if !in.NeverJoins {
		p.after(at, in.JoinAfter, "join", in.ID)
	}
}

// terminate begins the end of an instance. It says what the state was.
func (p place) terminate(in *instance, at time.Time) string {
	was := in.state()
	if was == stateShuttingDown || was == stateTerminated {
		return was
	}
	p.move(in, stateShuttingDown, at)
	p.after(at, p.opt.Timing.ShuttingDown, "terminated", in.ID)
	p.leave(in, "terminated")
	p.release(in)
	return was
}

// release gives back what the instance took. The addresses and the capacity
// are free at once, which is what callers of the real thing see.
func (p place) release(in *instance) {
	if s := p.reg.Subnets.get(in.Subnet); s != nil {
		s.Used -= in.Addresses
	}
	in.Addresses = 0
	if t := p.cat.Type(in.Type); t != nil {
		p.reg.InUse[in.capacityType()] -= t.VCPUs
	}
	p.restock(in)
	if cr := p.reg.Reservations.get(in.CapacityReservation); cr != nil {
		cr.Used = max(0, cr.Used-1)
	}
	if sr := p.reg.SpotRequests.get(in.SpotRequest); sr != nil {
		sr.State, sr.Status = "closed", "instance-terminated-by-user"
		if in.Reclaim {
			sr.Status = "instance-terminated-no-capacity"
		}
	}
	for _, d := range in.Devices {
		if d.DeleteOnTermination {
			p.reg.Volumes.delete(d.Volume)
		} else if v := p.reg.Volumes.get(d.Volume); v != nil {
			v.Instance = ""
		}
	}
}

// stop begins to stop an instance.
func (p place) stop(in *instance, at time.Time) string {
	was := in.state()
	if was != stateRunning && was != statePending {
		return was
	}
	p.move(in, stateStopping, at)
	p.after(at, p.opt.Timing.Stopping, "stopped", in.ID)
	p.leave(in, "stopped")
	return was
}

// reboot restarts the operating system. Requests that come while it is down change nothing.
func (p place) reboot(in *instance, at time.Time) {
	if in.state() != stateRunning || !in.Joined {
		return
	}
	in.Boots++
	p.leave(in, "rebooting")
	p.after(at, p.opt.Timing.Reboot, "join", in.ID)
}

// settle ends a transition that is still going on.
func (p place) settle(in *instance, state string, at time.Time) {
	want := stateShuttingDown
	if state == stateStopped {
		want = stateStopping
	}
	if in.state() != want {
		return
	}
	p.move(in, state, at)
	if state == stateTerminated {
		in.PublicIP, in.PrivateIP, in.PrivateDNS, in.IPv6 = "", "", "", ""
		in.ENIs, in.Devices, in.UserData = nil, nil, ""
		p.after(at, p.opt.Timing.Remember, "forget", in.ID)
	}
}

// forget drops a terminated instance and what is only kept because of it, so
// that a world that runs for weeks does not grow.
func (p place) forget(in *instance) {
	p.reg.Instances.delete(in.ID)
	p.reg.SpotRequests.delete(in.SpotRequest)
	if f := p.reg.Fleets.get(in.Fleet); f != nil {
		f.Instances = slices.DeleteFunc(f.Instances, func(id string) bool { return id == in.ID })
		if len(f.Instances) == 0 {
			p.reg.Fleets.delete(f.ID)
		}
	}
}

// start starts a stopped instance.
func (p place) start(in *instance, at time.Time) string {
	was := in.state()
	if was != stateStopped {
		return was
	}
	p.move(in, statePending, at)
	in.Joined = false
	in.Boots++
	p.after(at, p.opt.Timing.Pending, "running", in.ID)
	return was
}

// visibleAt is when a thing made now begins to be described.
func (c *call) visibleAt() time.Time {
	if d := c.opt.Timing.Consistency; d > 0 {
		return c.at.Add(time.Duration(c.rng.Int64N(int64(d) + 1)))
	}
	return c.at
}
