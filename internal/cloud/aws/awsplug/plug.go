package awsplug

import (
	"context"
	"fmt"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud/plug"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/aws/class"
	"karpenter/internal/control"
	"karpenter/internal/control/claim"
)

// How often what AWS has is looked up. Spot prices move within hours, and a stale one sends pods to the wrong capacity type; what
// types exist and what they cost on demand changes a few times a year.
const (
	typesEvery    = 12 * time.Hour
	onDemandEvery = 12 * time.Hour
	spotEvery     = 10 * time.Minute
	shiftsEvery   = 30 * time.Second
)

// Plugin is the AWS provider.
func Plugin() plug.Plugin {
	return plug.Plugin{
		Name: "aws", Kind: aws.Kind(), Meter: aws.Meter(), New: func() plug.Cloud { return &Cloud{} },
		Help: "With provider aws it reaches AWS by the SDK's own environment (AWS_REGION, credentials, AWS_ENDPOINT_URL).", Example: "CLUSTER_NAME=my-cluster AWS_REGION=us-west-2",
	}
}

// Cloud is the AWS provider of a process.
type Cloud struct {
	Options
	process plug.Process
	sdk     sdkaws.Config
	clients aws.Clients
	cluster aws.Cluster
}

// Connect implements plug.Cloud: the SDK reads its own environment.
func (c *Cloud) Connect(ctx context.Context, process plug.Process) error {
	sdk, err := loadAWS(ctx, process.Version, process.Meter, process.Log)
	if err != nil {
		return err
	}
	sdk.APIOptions = append(sdk.APIOptions, guardCalls(process.Fence))
	c.process, c.sdk, c.clients = process, sdk, aws.NewClients(sdk)
	return nil
}

// Given takes the place of Connect and Find where somebody else has made what they would: a simulation.
func (c *Cloud) Given(sdk sdkaws.Config, cluster aws.Cluster, fence func() error) {
	sdk.APIOptions = append(sdk.APIOptions, guardCalls(fence))
	c.sdk, c.clients, c.cluster = sdk, aws.NewClients(sdk), cluster
}

// Find implements plug.Cloud: what EKS and the API server say of the cluster, and whether EC2 answers.
func (c *Cloud) Find(ctx context.Context) (err error) {
	find := &finder{options: &c.Options, clients: c.clients, Process: c.process}
	if c.cluster, err = find.cluster(ctx); err != nil {
		return err
	}
	if err := aws.New(c.provider(c.process)).Reach(ctx); err != nil {
		return err
	}
	c.process.Log.Info("found the cluster", "cluster", c.cluster.Name, "endpoint", c.cluster.Endpoint, "version", c.cluster.Version, "region", c.sdk.Region)
	return nil
}

// provider is what a provider is made from.
func (c *Cloud) provider(process plug.Process) aws.Options {
	return aws.Options{
		Clients: c.clients, Clock: process.Clock, Region: c.sdk.Region, Cluster: c.cluster,
		MemoryOverhead: c.VMMemoryOverheadPercent, ReservedENIs: c.ReservedENIs, ReservedCapacity: process.ReservedCapacity,
		RebootForRepair: c.Gates.RebootForRepair, KubeletExpressions: c.Gates.NodeClassCEL, DisableDryRun: c.DisableDryRun, IsolatedVPC: c.IsolatedVPC, ZonalShift: c.EnableZonalShift,
	}
}

// Wire implements plug.Cloud.
func (c *Cloud) Wire(ctx context.Context, parts plug.Parts) (*plug.Wired, error) {
	classes := &plug.Classes[*awsv1.EC2NodeClass]{}
	if err := classes.Follow(ctx, parts.Manager.GetCache(), &awsv1.EC2NodeClass{}); err != nil {
		return nil, err
	}
	options := c.provider(parts.Process)
	options.Class, options.Meter = classes.Get, parts.Meter
	options.Pools = func(class string) []*karpv1.NodePool { return poolsOf(ctx, parts, class) }
	provider := aws.New(options)
	return &plug.Wired{
		Provider: provider, Resources: aws.Resources(), Version: func(name string) string { return version(classes.Get(name)) },
		About: func() plug.About { return c.about(provider) }, Report: func() { provider.Report(classes.Names) },
		Hooks: []claim.Hook{class.Partitions{Partitioner: provider}}, Refreshes: c.refreshes(provider),
		Reconcilers: c.reconcilers(provider, parts), Loops: c.loops(provider, parts),
	}, nil
}

// version changes with everything that nodes of the class are made from, images included.
func version(class *awsv1.EC2NodeClass) string {
	if class == nil {
		return ""
	}
	version := fmt.Sprintf("%s/%d", class.UID, class.Generation)
	for _, image := range class.Status.AMIs {
		version += "/" + image.ID
	}
	return version
}

// poolsOf are the pools that name a class, as the cache shows them; none while it does not.
func poolsOf(ctx context.Context, parts plug.Parts, class string) (out []*karpv1.NodePool) {
	list := &karpv1.NodePoolList{}
	if err := parts.Manager.GetClient().List(ctx, list); err != nil {
		return nil // the trial goes on with any type that the class can use
	}
	for i := range list.Items {
		if ref := list.Items[i].Spec.Template.Spec.NodeClassRef; ref.Is(awsv1.EC2NodeClassGroupKind) && ref.Name == class {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

func (c *Cloud) about(provider *aws.Provider) plug.About {
	known := provider.Known()
	return plug.About{
		Cluster: c.cluster.Name, Region: c.sdk.Region, Outages: known.Outages,
		Prices: []plug.PriceList{{Name: known.OnDemandName(), At: known.OnDemandAt}, {Name: "spot", At: known.SpotAt}},
	}
}

// refreshes keep current what is known of AWS.
func (c *Cloud) refreshes(provider *aws.Provider) []plug.Refresh {
	list := []plug.Refresh{
		{Name: "providers.instancetype", Every: typesEvery, Do: provider.RefreshTypes, First: true},
		{Name: "providers.pricing.ondemand", Every: onDemandEvery, Do: provider.RefreshOnDemand}, // there is a list in the binary
		{Name: "providers.pricing.spot", Every: spotEvery, Do: provider.RefreshSpot, First: true},
	}
	if c.EnableZonalShift {
		list = append(list, plug.Refresh{Name: "zonalshift", Every: shiftsEvery, First: true, Do: func(ctx context.Context) error {
			_, err := provider.RefreshShifts(ctx)
			return err
		}})
	}
	return list
}

func (c *Cloud) reconcilers(provider *aws.Provider, parts plug.Parts) []plug.Reconciler {
	k := parts.Manager.GetClient()
	return []plug.Reconciler{
		&class.Status{Client: k, Resolver: calmer{provider, &c.Options, parts.ReservedCapacity}, Recorder: parts.Recorder, Clock: parts.Clock},
		&class.Hash{Client: k, CABundle: c.cluster.CABundle, Clock: parts.Clock},
		&class.Memory{Client: k, Learn: provider.LearnMemory, Clock: parts.Clock},
		&class.Tags{Client: k, Tagger: provider, Cluster: c.cluster.Name, InstanceID: aws.ParseProviderID, Clock: parts.Clock},
	}
}

func (c *Cloud) loops(provider *aws.Provider, parts plug.Parts) (all []*control.Loop) {
	k := parts.Manager.GetClient()
	if c.EnableZonalShift {
		all = append(all, (&class.Shifts{Client: k, Shifter: provider, Clock: parts.Clock, Recorder: parts.Recorder, Log: parts.Log.With("controller", "zonalshift.events")}).Loop(nil))
	}
	all = append(all,
		(&class.Collect{Client: k, Leavings: provider, Clock: parts.Clock, Log: parts.Log}).Loop(nil),
		(&class.Ailing{
			Client: k, Clinic: provider, InstanceID: aws.ParseProviderID, Quota: parts.Quota,
			Clock: parts.Clock, Recorder: parts.Recorder, Meter: parts.Meter, Log: parts.Log.With("controller", "interruption.instancestatus"), Ledger: parts.Ledger,
		}).Loop(nil),
		(&class.Reservations{
			Client: k, Lister: provider, InstanceID: aws.ParseProviderID,
			Clock: parts.Clock, Recorder: parts.Recorder, Meter: parts.Meter, Log: parts.Log.With("controller", "capacityreservation"),
		}).Loop(nil),
	)
	if c.InterruptionQueue == "" {
		return all
	}
	return append(all, (&class.Interruption{
		Client: k, Inbox: aws.NewQueue(c.clients.SQS, c.InterruptionQueue), Interrupted: provider.Interrupted,
		InstanceID: aws.ParseProviderID, Clock: parts.Clock, Recorder: parts.Recorder, Meter: parts.Meter, Log: parts.Log.With("controller", "interruption"), Ledger: parts.Ledger,
	}).Loop())
}

// calmer looks at a class that is ready no more often than the settings say.
type calmer struct {
	*aws.Provider
	options          *Options
	reservedCapacity bool
}

// Reconcile implements class.Resolver.
func (c calmer) Reconcile(ctx context.Context, class *awsv1.EC2NodeClass) time.Duration {
	again := c.Provider.Reconcile(ctx, class)
	if class.StatusConditions(c.reservedCapacity).Root().Status != "True" {
		return again
	}
	return max(again, min(c.options.AMIRefreshInterval, c.options.SubnetRefreshInterval, c.options.SecurityGroupRefreshInterval))
}
