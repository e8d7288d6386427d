// Package capi makes Karpenter's instances with Cluster API: it raises and lowers the replicas of scalable resources (MachineDeployments
// and MachineSets) of a management cluster, and gives each Machine that comes of it to the claim that it was raised for.
//
// Cluster API makes Machines for a number, not for a name, so what was asked for whom is kept where the number is: in an annotation of the
// scalable resource (see record) that is written together with spec.replicas, in one compare-and-swap. Whatever ends a process between two
// writes, the next one reads there what has been asked for, which Machine a claim has been given and for which Machines the number has
// been lowered. Machines that are there before Karpenter scales a resource are left alone.
//
// What instance types are made of is kept in memory by caches. The caller gives a clock and clients, starts the caches, and keeps the
// classes current through Options.Class.
package capi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/wait"
)

// Clock is the time that the provider lives in.
type Clock = kit.Clock

// DefaultProvisionTimeout is how long a Machine may take to get its provider ID: bare metal boots twice and may be erased before.
const DefaultProvisionTimeout = 20 * time.Minute

// Options are what a Provider is made from.
type Options struct {
	// Management reads from and writes to the API server of the management cluster itself, without a cache.
	Management client.Client
	Clock      Clock
	// Namespace and Cluster narrow the scalable resources to those of a namespace and of a Cluster, if given.
	Namespace, Cluster string
	// Class returns the node class of that name, or nil; Classes all of them. They must not block, and Class must return the same pointer
	// for as long as the object has not changed.
	Class   func(name string) *v1alpha1.ClusterAPINodeClass
	Classes func() []*v1alpha1.ClusterAPINodeClass
	// Pools returns the pools that name the class, from memory; optional. Their taints decide which tainted nodes suit them.
	Pools func(class string) []*karpv1.NodePool
	// Prices are dollars an hour by instance type, for those that have no annotation.
	Prices map[string]float64
	// ProvisionTimeout is how long a Machine may take to get its provider ID; zero stands for DefaultProvisionTimeout.
	ProvisionTimeout time.Duration
	// Changed, if set, is told that instance types may have changed; Seen of every Machine that was changed or is gone.
	Changed func()
	Seen    func(*kinds.Machine)
	// OnStep, if set, is called before and after every write. Tests crash there.
	OnStep func(step Step, done bool)
}

// Step names a write to the management cluster.
type Step string

// The steps of launches and deletions.
const (
	StepRaise  Step = "raise"  // replicas raised for claims
	StepAssign Step = "assign" // Machines noted for claims
	StepClaim  Step = "claim"  // a Machine given to its claim
	StepPrune  Step = "prune"  // notes about what is done dropped
	StepMark   Step = "mark"   // a Machine marked for deletion
	StepPause  Step = "pause"  // a MachineDeployment in a rollout halted
	StepShrink Step = "shrink" // the replicas of one of its MachineSets lowered
	StepLower  Step = "lower"  // replicas lowered for a Machine
	StepDelete Step = "delete" // the Machine deleted
)

// Provider is the Cluster API provider. Its methods are safe for concurrent use.
type Provider struct {
	opt      Options
	store    *store
	stock    *kit.Stock
	classes  sync.Map // name → *classTypes
	versions atomic.Uint64
	// launches holds one lock per batch that is being launched, so that two calls for one batch follow each other; scaling one per
	// scalable resource, so that this process does not compete with itself.
	launches, scaling keyed
}

// New makes a provider that knows nothing yet: Follow fills it.
func New(opt Options) *Provider {
	if opt.ProvisionTimeout <= 0 {
		opt.ProvisionTimeout = DefaultProvisionTimeout
	}
	p := &Provider{opt: opt, store: newStore(), stock: kit.NewStock(opt.Clock)}
	p.store.changed, p.store.seen = opt.Changed, opt.Seen
	return p
}

// Follow has the provider know what caches show of the management cluster. Synced says whether it has seen everything once.
func (p *Provider) Follow(ctx context.Context, informers cache.Informers) error {
	return p.store.follow(ctx, informers)
}

// Synced says whether everything in the management cluster has been seen once.
func (p *Provider) Synced() bool { return p.store.ready() }

// Name is "cluster-api".
func (p *Provider) Name() string { return "cluster-api" }

var _ cloud.Provider = (*Provider)(nil)

// reach tells a test of a step.
func (p *Provider) reach(step Step, done bool) {
	if p.opt.OnStep != nil {
		p.opt.OnStep(step, done)
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// keyed is a set of locks by name; one that nobody holds takes no room.
type keyed struct {
	mu    sync.Mutex
	locks map[key]*counted
}

type counted struct {
	sync.Mutex
	users int
}

// lock waits for the name and returns how to let go of it.
func (k *keyed) lock(clock Clock, name key) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[key]*counted{}
	}
	l := k.locks[name]
	if l == nil {
		l = &counted{}
		k.locks[name] = l
	}
	l.users++
	k.mu.Unlock()
	wait.Lock(clock, &l.Mutex) // it is held during calls
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, name)
		}
	}
}

// Outages are scalable resources that are left alone for a while, because nothing could be made from them.
func (p *Provider) Outages() []kit.Outage { return p.stock.Outages() }
