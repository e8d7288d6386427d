package simaws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/cloud/simaws/policy"
)

// Clock is the time the world lives in. The real one is made by the program; a
// Manual clock makes tests and replays exact.
type Clock interface {
	Now() time.Time
	// After delivers once when d has passed.
	After(d time.Duration) <-chan time.Time
}

// DefaultAccount owns everything that nobody else is named for.
const DefaultAccount = "111122223333"

// Options describe a world. The zero value of every field is usable except
// Clock.
type Options struct {
	Clock Clock
	// Seed makes ids, delays, prices and percentage faults reproducible.
	Seed uint64
	// Region is where requests without a region go; us-west-2 if empty.
	Region string
	// Account is the account of unknown access keys; DefaultAccount if empty.
	Account string
	// Clusters are the EKS clusters that exist from the start, in every region.
	Clusters []Cluster
	// Queue, if set, is an SQS queue that exists from the start in every
	// region, with the EventBridge rules that feed it.
	Queue string
	// KubernetesVersions have AMIs and SSM aliases; a default range if empty.
	KubernetesVersions []string
	Timing             Timing
	// SteadySpot keeps spot prices where they are, and makes one spot pool as deep as
	// the other: what a fleet of spot instances is made of can be foreseen then.
	SteadySpot bool
	// Brief leaves out of instances and images what says nothing about which they
	// are, what they run and to whom they belong, for the sake of speed.
	Brief bool
	// Throttle turns the token buckets on.
	Throttle bool
	// OnCall, if set, is told of every finished call.
	OnCall func(Call)
	// Catalog is what there is to buy; the embedded one if nil.
	Catalog *catalog.Catalog
	// Watcher, if set, is told of instances that join and leave.
	Watcher Watcher
}

// Cluster is an EKS cluster that the world knows.
type Cluster struct {
	Name, Version, Endpoint string
	// CertificateAuthority is base64 PEM.
	CertificateAuthority string
	ServiceCIDR          string
	IPv6                 bool
}

// Timing holds the delays of the world. Zero fields get the defaults of
// DefaultTiming; a negative value means no delay.
type Timing struct {
	// Pending is from launch to running, Join from running to the node's
	// registration, ShuttingDown from termination to terminated, Stopping from
	// stop to stopped, Reboot from a reboot until the node is back.
	Pending, Join, ShuttingDown, Stopping, Reboot time.Duration
	// Notice is how long before reclaim an interruption warning is sent, and
	// Rebalance how long before that warning the recommendation is.
	Notice, Rebalance time.Duration
	// Consistency is the longest time a new instance or launch template may
	// stay invisible to describes, IAMConsistency the same for a new instance
	// profile as EC2 sees it. Both are off by default.
	Consistency, IAMConsistency time.Duration
	// Remember is how long a terminated instance is still described.
	Remember time.Duration
	// SpotStep is the time between two moves of a spot price.
	SpotStep time.Duration
}

// DefaultTiming is close to what EC2 takes.
var DefaultTiming = Timing{
	Pending: 6 * time.Second, Join: 25 * time.Second, ShuttingDown: 30 * time.Second, Stopping: 40 * time.Second, Reboot: 30 * time.Second,
	Notice: 2 * time.Minute, Rebalance: 5 * time.Minute, Remember: time.Hour, SpotStep: 2 * time.Hour,
}

func (t Timing) withDefaults() Timing {
	fill := func(v *time.Duration, d time.Duration) {
		switch {
		case *v == 0:
			*v = d
		case *v < 0:
			*v = 0
		}
	}
	d := DefaultTiming
	fill(&t.Pending, d.Pending)
	fill(&t.Join, d.Join)
	fill(&t.ShuttingDown, d.ShuttingDown)
	fill(&t.Stopping, d.Stopping)
	fill(&t.Reboot, d.Reboot)
	fill(&t.Notice, d.Notice)
	fill(&t.Rebalance, d.Rebalance)
	fill(&t.Consistency, 0)
	fill(&t.IAMConsistency, 0)
	fill(&t.Remember, d.Remember)
	fill(&t.SpotStep, d.SpotStep)
	return t
}

// Sim is one world. All methods are safe for concurrent use.
type Sim struct {
	opt Options
	cat *catalog.Catalog

	// mu guards everything below. Describes hold it for reading.
	mu     sync.RWMutex
	st     *state
	rng    *rand.Rand
	faults []*Fault
	limits map[string]*bucket
	outbox []func()

	// nextDue is when the agenda wants attention, in Unix nanoseconds, so that
	// a describe need not take the write lock to find out.
	nextDue  atomic.Int64
	requests atomic.Uint64
	waiters  *waiters
	policies policyCache
	wake     chan struct{}
	delivery sync.Mutex
	// mail says that outbox is not empty.
	mail atomic.Bool
}

// state is everything that is saved to a file.
type state struct {
	Accounts map[string]*account
	Keys     map[string]*principal
	Agenda   agenda
	// Serial numbers ids.
	Serial uint64
	// Clock is the time at which the state was saved.
	Clock time.Time
	Stock []*StockRule
	Pools map[string]*pool
	Storm []*storm
}

// account is one AWS account.
type account struct {
	ID      string
	Regions map[string]*region
	IAM     *iamState
	Quotas  Quotas
}

// New makes a world.
func New(opt Options) (*Sim, error) {
	if opt.Clock == nil {
		return nil, errors.New("simaws: Options.Clock is required")
	}
	cat, err := opt.Catalog, error(nil)
	if cat == nil {
		cat, err = catalog.Load()
	}
	if err != nil {
		return nil, fmt.Errorf("simaws: %w", err)
	}
	if opt.Region == "" {
		opt.Region = "us-west-2"
	}
	if opt.Account == "" {
		opt.Account = DefaultAccount
	}
	if len(opt.KubernetesVersions) == 0 {
		opt.KubernetesVersions = defaultKubernetesVersions
	}
	opt.Timing = opt.Timing.withDefaults()
	if _, err := cat.Region(opt.Region); err != nil {
		return nil, fmt.Errorf("simaws: %w", err)
	}
	s := &Sim{
		opt: opt, cat: cat,
		rng:      rand.New(rand.NewPCG(opt.Seed, 0x5eed)),
		limits:   map[string]*bucket{},
		waiters:  newWaiters(),
		policies: policyCache{docs: map[string]policy.Document{}},
		wake:     make(chan struct{}, 1),
		st: &state{
			Accounts: map[string]*account{}, Keys: map[string]*principal{}, Pools: map[string]*pool{},
		},
	}
	s.nextDue.Store(never)
	return s, nil
}

// account returns the account, making it on first use.
func (s *Sim) account(id string) *account {
	a := s.st.Accounts[id]
	if a == nil {
		a = &account{ID: id, Regions: map[string]*region{}, IAM: newIAMState(id), Quotas: defaultQuotas()}
		s.st.Accounts[id] = a
	}
	return a
}

// now is the world's time, without the monotonic part so that it survives
// being saved.
func (s *Sim) now() time.Time { return s.opt.Clock.Now().UTC().Round(0) }

// id makes the next identifier: the prefix and digits hex digits that depend
// only on the seed and on how many came before.
func (s *Sim) id(prefix string, digits int) string {
	s.st.Serial++
	h := hash64(s.opt.Seed, s.st.Serial)
	return fmt.Sprintf("%s0%0*x", prefix, digits-1, h>>(64-4*min(digits-1, 16)))
}

// uuid makes an identifier in UUID form.
func (s *Sim) uuid() string {
	s.st.Serial++
	return uuidFrom(hash64(s.opt.Seed, s.st.Serial), hash64(s.st.Serial, s.opt.Seed+1))
}

func uuidFrom(a, b uint64) string {
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// hash64 mixes words into one; the figures it gives look random and stay the
// same on every computer.
func hash64(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h ^= w
		h ^= h >> 30
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 27
		h *= 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

func hashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Run keeps the world moving until ctx ends: instances start, notices are
// sent, queues wake. Without it the world moves only when it is called or
// Tick is.
func (s *Sim) Run(ctx context.Context) {
	for {
		s.Tick()
		var alarm <-chan time.Time
		if due := s.nextDue.Load(); due != never {
			alarm = s.opt.Clock.After(max(0, time.Unix(0, due).Sub(s.opt.Clock.Now())))
		}
		select {
		case <-ctx.Done():
			return
		case <-alarm:
		case <-s.wake:
		}
	}
}

// Tick brings the world up to the clock's time.
func (s *Sim) Tick() {
	s.mu.Lock()
	s.catchUp(s.now())
	s.mu.Unlock()
	s.deliver()
}

// post puts a watcher call aside until the lock is free.
func (s *Sim) post(f func()) {
	s.outbox = append(s.outbox, f)
	s.mail.Store(true)
}

// deliver runs the watcher calls that were put aside, outside of the lock, one
// at a time and in order. Whoever finds it going on leaves the rest to it, so
// that a watcher may call the world.
func (s *Sim) deliver() {
	for s.mail.Load() && s.delivery.TryLock() {
		s.mu.Lock()
		todo := s.outbox
		s.outbox = nil
		s.mail.Store(false)
		s.mu.Unlock()
		for _, f := range todo {
			f()
		}
		s.delivery.Unlock()
	}
}

// Due is when the world wants attention next, for whoever calls Tick instead of Run; ok is false if nothing is planned.
func (s *Sim) Due() (at time.Time, ok bool) {
	due := s.nextDue.Load()
	return time.Unix(0, due), due != never
}
