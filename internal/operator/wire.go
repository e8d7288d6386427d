package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	semver "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"karpenter/cloud"
	"karpenter/cloud/plug"
	"karpenter/internal/control"
	"karpenter/internal/control/buffer"
	"karpenter/internal/control/claim"
	"karpenter/internal/control/disruption"
	"karpenter/internal/control/drain"
	"karpenter/internal/control/pool"
	"karpenter/internal/control/provision"
	"karpenter/internal/control/repair"
	"karpenter/internal/control/replicas"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/pack"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// wiring is what the reconcilers are made from. Each part of the program has one function here that makes it and hands it to
// the manager.
type wiring struct {
	*process
	m        manager.Manager
	kube     kubernetes.Interface
	recorder *control.Recorder
	// paced is a client with a pace of its own, so that what it writes holds up nothing else.
	paced func(purpose string, perSecond int) (client.Client, error)
	// workers is how many things the engine tries at once.
	workers int

	// cloud is the provider, and what runs for it.
	cloud *plug.Wired
	// asked are closed when the cloud has answered for the first time, or has failed to.
	asked  []<-chan struct{}
	mirror *state.Mirror
	quota  *control.Quota
	health *pool.Health
	ledger *ledger.Ledger
	source *source

	// turn keeps plans and moves apart; provisioner and creator are shared by both.
	turn        disruption.Turn
	provisioner *provision.Provisioner
	creator     *provision.Creator
	nominator   *provision.Nominator
	// buffer resolves CapacityBuffers; nil if they have no effect.
	buffer *buffer.Reconciler
	// lifecycle launches claims; who ends them asks it what is under way.
	lifecycle *claim.Lifecycle
}

// served is the kind of node class that this process serves.
func (w *wiring) served() schema.GroupKind { return w.options.Kind.GroupKind() }

// all wires everything, in the order in which things need each other.
func (w *wiring) all(ctx context.Context) error {
	w.quota, w.health = control.NewQuota(w.clock.Now), pool.NewHealth(w.m.GetClient(), w.served(), w.clock)
	for _, part := range []struct {
		name string
		wire func(context.Context) error
	}{
		{"indexes", w.indexes},
		{"cloud", w.provider},
		{"state", w.state},
		{"audit", w.audit},
		{"provisioning", w.provisioning},
		{"claims", w.claims},
		{"termination", w.termination},
		{"pools", w.pools},
		{"what is the provider's own", w.providersOwn},
		{"repair", w.repair},
		{"disruption", w.disruption},
		{"buffers", w.buffers},
		{"static pools", w.staticPools},
		{"observability", w.observability},
		{"webhook", func(context.Context) error { return w.webhook() }},
	} {
		if err := part.wire(ctx); err != nil {
			return fmt.Errorf("setting up %s: %w", part.name, err)
		}
	}
	return nil
}

// add hands reconcilers to the manager.
func (w *wiring) add(reconcilers ...plug.Reconciler) error {
	for _, r := range reconcilers {
		if err := r.Register(w.m); err != nil {
			return fmt.Errorf("%T: %w", r, err)
		}
	}
	return nil
}

// loops hands loops to the manager, each watched.
func (w *wiring) loops(loops ...*control.Loop) error {
	for _, l := range loops {
		l.Log = w.log.With("controller", l.Name)
		if err := w.m.Add(w.dog.Guard(l)); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return nil
}

// as is the provider with calls counted for one controller.
func (w *wiring) as(controller string) cloud.Provider {
	return metered{Provider: w.cloud.Provider, set: w.set, controller: controller, now: w.clock.Now}
}

func (w *wiring) provisioning(context.Context) error {
	w.creator = &provision.Creator{Client: w.m.GetClient(), Live: w.m.GetAPIReader(), Mirror: w.mirror, Clock: w.clock, Meter: w.set, Log: w.log.With("controller", "provisioner")}
	var err error
	if w.nominator, err = w.nominating(); err != nil {
		return err
	}
	w.provisioner = &provision.Provisioner{
		Nominator: w.nominator,
		Mirror:    w.mirror, Look: func() (*state.View, map[string]bool) { return w.turn.Look(w.mirror) }, Creator: w.creator, Batch: provision.NewBatcher(w.clock, w.options.BatchIdleDuration, w.options.BatchMaxDuration),
		Options: w.packing(), Clock: w.clock, Log: w.log.With("controller", "provisioner"), Events: w.recorder, Meter: w.set, Gate: w.health, Beat: w.dog.Beat,
		Ledger: w.ledger, Reading: w.reading(), Planned: w.source.planned,
	}
	rollouts := w.provisioner.Rollouts()
	rollouts.Put, rollouts.Drop = func(pod *corev1.Pod) { w.mirror.Put(pod) }, func(pod *corev1.Pod) { w.mirror.Drop(pod) }
	return w.add(w.provisioner)
}

// nominating is what lets pods go where they were planned. It writes at a pace of its own: a thousand nominations within a second
// must not hold up the nodes that they are for.
func (w *wiring) nominating() (*provision.Nominator, error) {
	c, err := w.paced("nominations", nominationsQPS)
	if err != nil {
		return nil, err
	}
	off := !w.options.NominatePods
	if !off && !nominates(w.version) {
		w.log.Info("pods are not nominated for nodes: that needs Kubernetes 1.35 or later", "version", w.version)
		off = true
	}
	return &provision.Nominator{Client: c, Mirror: w.mirror, Creator: w.creator, Clock: w.clock, Log: w.log.With("controller", "provisioner"), Off: off}, nil
}

// How many nominations and deletion costs are written per second, and at once. Nodes wait for nominations; nobody does for deletion
// costs.
const (
	nominationsQPS   = 500
	deletionCostsQPS = 50
)

// pacedClient makes a client with a pace of its own.
func pacedClient(m manager.Manager, purpose string, perSecond int) (client.Client, error) {
	config := rest.CopyConfig(m.GetConfig())
	config.QPS, config.Burst, config.Timeout = float32(perSecond), perSecond, requestTimeout
	c, err := client.New(config, client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", purpose, err)
	}
	return c, nil
}

// nominates says whether kube-scheduler of a version heeds nominations by others, and whether they end when the pod is bound.
func nominates(version string) bool {
	v, err := semver.ParseGeneric(version)
	return err == nil && v.AtLeast(semver.MajorMinor(1, 35))
}

// packing is how pods are placed, for new nodes and for disruption.
func (w *wiring) packing() pack.Options {
	return pack.Options{
		Workers:             w.workers,
		IgnorePreferences:   w.options.PreferencePolicy == PreferencesIgnore,
		BestEffortMinValues: w.options.MinValuesPolicy == MinValuesBestEffort,
	}
}

func (w *wiring) disruption(context.Context) error {
	c := w.m.GetClient()
	policies, err := w.repairPolicies()
	if err != nil {
		return err
	}
	w.source.loop = &disruption.Loop{
		Repair: policies,
		Client: c, Live: w.m.GetAPIReader(), Mirror: w.mirror, Creator: w.creator, Turn: &w.turn, Nominated: w.provisioner.NominatedUntil, Arrivals: w.provisioner,
		ClassVersion: w.cloud.Version, Gate: w.health, Options: disrupt.Options{Pack: w.packing(), SpotToSpot: w.options.Gates.SpotToSpotConsolidation, TerminateFirstDrift: w.options.Gates.TerminateFirstDrift, TerminateFirstRepair: w.options.Gates.TerminateFirstRepair},
		Clock: w.clock, Log: w.log.With("controller", "disruption"), Recorder: w.recorder, Meter: w.set, Beat: w.dog.Beat,
		Ledger: w.ledger, Reading: w.reading(), Decided: w.source.decided,
	}
	if w.options.Gates.PodDeletionCostManagement {
		paced, err := w.paced("deletion costs", deletionCostsQPS)
		if err != nil {
			return err
		}
		costs := &disruption.DeletionCosts{Client: paced, Mirror: w.mirror, Decider: w.source.loop, Clock: w.clock, Meter: w.set, Log: w.log.With("controller", "pod.deletioncost")}
		if err := w.loops(costs.Loop()); err != nil {
			return err
		}
	}
	return w.add(
		&disruption.Quiet{Client: c, Class: w.served(), Clock: w.clock},
		&disruption.Drift{
			Client: c, Judge: w.as("nodeclaim.drift"), Types: w.cloud.Provider.Types, Class: w.served(), ClassObject: w.options.Kind.New(),
			Rules: w.options.Kind.Labels(), Clock: w.clock, Meter: w.set, Log: w.log,
		},
		w.source.loop,
	)
}

// staticPools keeps them at their size.
func (w *wiring) staticPools(context.Context) error {
	if !w.options.Gates.StaticCapacity {
		return nil
	}
	return w.add(&replicas.Loop{
		Client: w.m.GetClient(), Mirror: w.mirror, Creator: w.creator, Options: disrupt.Options{Pack: w.packing()}, Reading: w.reading(), Gate: w.health,
		Clock: w.clock, Log: w.log.With("controller", "static.scaling"), Recorder: w.recorder, Meter: w.set, Beat: w.dog.Beat, Ledger: w.ledger,
	})
}

// limits are how long a claim may take for each of its steps.
func (w *wiring) limits() life.Limits {
	limits := life.DefaultLimits
	limits.Initialize = w.options.InitializationTimeout
	if w.cloud.LaunchTimeout > 0 {
		limits.Launch = w.cloud.LaunchTimeout
	}
	return limits
}

func (w *wiring) claims(context.Context) error {
	c := w.m.GetClient()
	w.lifecycle = &claim.Lifecycle{
		Limits: w.limits(),
		Client: c, Live: w.m.GetAPIReader(), Launcher: w.as("nodeclaim.lifecycle"), InstanceID: w.cloud.Provider.InstanceID, Class: w.served(), Quota: w.quota,
		Hooks: w.cloud.Hooks, Health: w.health, Waiting: w.provisioner, Wrote: func(o client.Object) { w.mirror.Wrote(o) }, Clock: w.clock, Recorder: w.recorder, Meter: w.set, Log: w.log, Ledger: w.ledger,
	}
	w.lifecycle.Opener, w.nominator.Wake = w.nominator, w.lifecycle.Wake
	if w.options.Gates.NodeOverlay {
		w.lifecycle.Overlays = w.mirror
	}
	if !w.options.IgnoreDRARequests {
		w.lifecycle.Devices = w.m.GetAPIReader()
	}
	err := w.add(w.lifecycle,
		&claim.Consistency{Client: c, Class: w.served(), Clock: w.clock, Recorder: w.recorder, Meter: w.set},
		&claim.Expire{Client: c, Class: w.served(), Clock: w.clock, Meter: w.set, Log: w.log, Ledger: w.ledger},
		&claim.Hydrate{Client: c, Class: w.served(), Clock: w.clock},
		&claim.PodEvents{Client: c, Class: w.served(), Clock: w.clock},
	)
	if err != nil {
		return err
	}
	return w.loops((&claim.Collect{
		Client: c, Live: w.m.GetAPIReader(), Fleet: w.as("nodeclaim.garbagecollection"), InstanceID: w.cloud.Provider.InstanceID, Class: w.served(),
		Quota: w.quota, Clock: w.clock, Recorder: w.recorder, Meter: w.set, Log: w.log.With("controller", "nodeclaim.garbagecollection"), Ledger: w.ledger,
	}).Loop(nil))
}

func (w *wiring) termination(context.Context) error {
	return w.add(&drain.Drainer{
		Rebooter: w.as("nodeclaim.reboot"), Ledger: w.ledger, Wrote: func(o client.Object) { w.mirror.Wrote(o) },
		Client: w.m.GetClient(), Live: w.m.GetAPIReader(), Fleet: w.as("node.termination"), InstanceID: w.cloud.Provider.InstanceID, Class: w.served(),
		Launches: w.lifecycle, Clock: w.clock, Recorder: w.recorder, Meter: w.set, Log: w.log,
	})
}

func (w *wiring) pools(context.Context) error {
	c := w.m.GetClient()
	if err := w.add(&pool.Ready{Client: c, Kind: w.options.Kind, NoStatic: !w.options.Gates.StaticCapacity, Clock: w.clock}, &pool.Hash{Client: c, Class: w.served(), Clock: w.clock}, w.health); err != nil {
		return err
	}
	if w.options.Gates.NodeOverlay {
		if err := w.add(&pool.Overlays{Client: c, Mirror: w.mirror, Clock: w.clock}); err != nil {
			return err
		}
	}
	return w.loops((&pool.Count{
		Client: c, Mirror: w.mirror, Class: w.served(), Clock: w.clock, Meter: w.set, Log: w.log, NoGauges: w.options.DisableClusterStateObservability,
	}).Loop(nil))
}

// providersOwn are reconcilers and loops of the provider.
func (w *wiring) providersOwn(context.Context) error {
	if err := w.add(w.cloud.Reconcilers...); err != nil {
		return err
	}
	return w.loops(w.cloud.Loops...)
}

// repairPolicies are those that disruption goes by; none if it repairs nothing. A set that is wrong ends the start (N6).
func (w *wiring) repairPolicies() ([]life.RepairPolicy, error) {
	if !w.options.Gates.NodeRepair || w.options.LegacyNodeRepair {
		return nil, nil
	}
	return checkedPolicies(w.cloud.Provider.Name(), w.cloud.Provider.RepairPolicies())
}

// checkedPolicies are a provider's policies in the engine's words, if nothing is wrong with them.
func checkedPolicies(provider string, policies []cloud.RepairPolicy) ([]life.RepairPolicy, error) {
	list := control.RepairPolicies(policies)
	if _, err := life.NewRepairRules(list); err != nil {
		return nil, fmt.Errorf("repair policies of provider %s: %w", provider, err)
	}
	return list, nil
}

// repair is that of releases before 1.15; otherwise it is part of disruption.
func (w *wiring) repair(context.Context) error {
	if !w.options.Gates.NodeRepair || !w.options.LegacyNodeRepair {
		return nil
	}
	return w.add(&repair.Repair{
		Client: w.m.GetClient(), Policies: w.cloud.Provider, Class: w.served(), Quota: w.quota,
		Clock: w.clock, Recorder: w.recorder, Meter: w.set, Log: w.log, Ledger: w.ledger,
	})
}
