package plug

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/cloud/setting"
	"karpenter/internal/control"
	"karpenter/internal/control/claim"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

// Plugin is a provider that the controller can be run with.
type Plugin struct {
	// Name is what the setting PROVIDER calls it.
	Name string
	// Help says in a sentence how it reaches its cloud, and Example is what of that a command line needs at least.
	Help, Example string
	// Kind is the kind of node class that it serves.
	Kind cloud.Kind
	// Meter is what it adds to the table of metrics, besides those of its kind.
	Meter meter.Cloud
	// New makes a provider for a process, with settings that nobody has read yet.
	New func() Cloud
}

// Metrics is all that the provider adds to the table of metrics.
func (p Plugin) Metrics() meter.Cloud {
	c := p.Meter
	c.Group, c.Kind = p.Kind.Group, p.Kind.GroupVersionKind.Kind
	return c
}

// Cloud is a provider on its way into a controller. Its methods are called in their order, each once except Find.
type Cloud interface {
	// Settings are those that the provider has besides the controller's. Setting them changes this Cloud. What has no effect is told
	// to warn.
	Settings(warn func(text string)) []setting.Setting
	// Connect makes clients; it asks nobody for anything that may be away. An error ends the start: it is of what was set.
	Connect(ctx context.Context, process Process) error
	// Find reaches the cloud and finds out all that must be known before anything can be wired. It is called until it succeeds; its
	// error is logged and shown on /readyz.
	Find(ctx context.Context) error
	// Wire makes the provider, and what else is to run for it.
	Wire(ctx context.Context, parts Parts) (*Wired, error)
}

// Process is what a provider may know of the process that it is in.
type Process struct {
	// Version is the program's.
	Version string
	// Config and Kube reach the API server of the cluster that nodes join. Writes are for Parts.Manager, which alone stops them once
	// the lease is lost.
	Config *rest.Config
	Kube   kubernetes.Interface
	// Fence returns an error if this process may have ceased to lead. Whatever changes the cloud must ask it right before it does.
	Fence func() error
	// ReservedCapacity is the feature gate of that name.
	ReservedCapacity bool
	Clock            control.Clock
	Log              *slog.Logger
	Meter            *meter.Set
}

// Parts are what a provider's own reconcilers are made from.
type Parts struct {
	Process
	Manager  manager.Manager
	Recorder *control.Recorder
	// Quota is what everything shares that destroys on its own judgement.
	Quota  *control.Quota
	Ledger *ledger.Ledger
}

// Wired is a provider, and what runs for it.
type Wired struct {
	Provider cloud.Provider
	// Resources names what nodes have, in the order of every vector of the provider's types.
	Resources []string
	// Version changes with everything that nodes of a class are made from, its status included.
	Version func(class string) string
	// About says what the provider knows, for people.
	About func() About
	// Report, if any, is called once, when this process is to show metrics of what can be bought.
	Report func()
	// LaunchTimeout is how long a claim may wait for the provider ID of its instance; zero stands for the usual time.
	LaunchTimeout time.Duration
	// Hooks are asked before a node counts as registered.
	Hooks []claim.Hook
	// Refreshes keep current what the provider knows, on every replica. Reconcilers and Loops run where this process leads.
	Refreshes   []Refresh
	Reconcilers []Reconciler
	Loops       []*control.Loop
}

// Reconciler is what a manager can be made to run.
type Reconciler interface {
	Register(m manager.Manager) error
}

// Refresh asks the cloud for something again and again. Pods that wait are planned for afterwards.
type Refresh struct {
	Name  string
	Every time.Duration
	Do    func(context.Context) error
	// First says that nothing should be decided before this has been tried once.
	First bool
}

// About is what a provider tells people of itself.
type About struct {
	// Cluster and Region are where it makes nodes, as far as it has names for that.
	Cluster, Region string
	// Prices are its lists of prices, and when they were had.
	Prices []PriceList
	// Outages are offerings that are not tried for a while.
	Outages []kit.Outage
}

// PriceList is a list of prices and when it was had.
type PriceList struct {
	Name string
	At   time.Time
}

// ServerVersion is the API server's version as major.minor.
func ServerVersion(client discovery.ServerVersionInterface) (string, error) {
	info, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return info.Major + "." + strings.TrimRight(info.Minor, "+"), nil
}
