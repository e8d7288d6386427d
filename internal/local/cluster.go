package local

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	awsv1 "karpenter/api/aws/v1"
	capiv1alpha1 "karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/local/kubelet"
	"karpenter/internal/local/plane"
	"karpenter/internal/local/scenario"
)

// Options say what cluster to run, and where.
type Options struct {
	// Binary is the multi-call binary built from kube/.
	Binary string
	// Dir belongs to the cluster alone. A cluster that is started in the folder of an earlier one goes on with it.
	Dir string
	// Fresh drops what an earlier cluster left in the folder.
	Fresh bool
	// ClusterName is the name that subnets and security groups are tagged with and roles are named after.
	ClusterName string
	// Region is where instances are launched.
	Region string
	// BootTime is from an instance's launch until its node registers.
	BootTime time.Duration
	// Provider is who makes nodes: ProviderAWS, which is the default, or ProviderClusterAPI.
	Provider string
	// ManagementApart gives Cluster API an API server of its own.
	ManagementApart bool
	// ControllersQPS and ControllersBurst limit the requests of each of Kubernetes' controllers, SchedulerQPS and SchedulerBurst those of
	// its scheduler; zero is Kubernetes' own default.
	ControllersQPS, ControllersBurst int
	SchedulerQPS, SchedulerBurst     int
	// NoDefaults leaves out the default NodePool and EC2NodeClass.
	NoDefaults bool
	// NoKarpenter leaves out everything of Karpenter, kinds included, for somebody to install its charts.
	NoKarpenter bool
	// Program is what the chart's pods run.
	Program string
	// Settings are the controller's, by the names of their environment variables. They win over those in the environment.
	Settings map[string]string
	// Predict has Play hold what plan says of changes against what comes of them. Spot prices stand still then, and AWS has as much
	// of one spot instance type as of the other: what it would give else nobody can know.
	Predict bool
	// AuditPolicy is a policy file by which the API server notes requests in logs/audit.log; without one it notes none.
	AuditPolicy string
	// Proxy, if set, says where the chart's pods find the API server and AWS, for who stands between.
	Proxy func(kube *plane.Plane, aws string) (kubeURL, awsURL string, err error)
	// Tell, if set, is told what happens, line by line.
	Tell func(line string)
}

// Cluster is a whole cluster on this computer: control plane, AWS simulator, kubelets by kwok, and the pods of the chart.
type Cluster struct {
	// Config and Kubeconfig have an administrator's rights.
	Config     *rest.Config
	Kubeconfig string
	// Client knows Kubernetes' own kinds and ours.
	Client client.WithWatch
	// AWS is the AWS simulator, AWSURL where it listens.
	AWS    *simaws.Sim
	AWSURL string
	// Management is the management cluster of Cluster API, which may be this cluster.
	Management client.WithWatch
	// MetricsURL is where the controller serves its metrics, DashboardURL where its dashboard is.
	MetricsURL   string
	DashboardURL string

	opts   Options
	folder io.Closer
	plane  *plane.Plane
	aws    *awsSim   // with ProviderAWS
	capi   *machines // with ProviderClusterAPI
	nodes  *nodeKeeper
	// pods runs the pods of Karpenter's charts. The API server may ask for them before there are any.
	pods atomic.Pointer[kubelet.Kubelet]
	// forwards lead to ports of the controller.
	forwards []io.Closer

	endWork context.CancelFunc
	work    sync.WaitGroup
}

// Start runs a cluster and returns when it can be used.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Tell == nil {
		opts.Tell = func(string) {}
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", opts.Dir, err)
	}
	opts.Dir = dir
	c := &Cluster{opts: opts}
	if c.folder, err = claimFolder(opts.Dir, opts.Fresh, opts.kind()); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{c.startPlane, c.startWorld, c.startNodes, c.awaitKarpenter} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

func (c *Cluster) tell(format string, args ...any) { c.opts.Tell(fmt.Sprintf(format, args...)) }

func (c *Cluster) startPlane(ctx context.Context) error {
	spread, err := c.defaultSpread()
	if err != nil {
		return err
	}
	if c.plane, err = plane.Start(ctx, plane.Options{
		Binary: c.opts.Binary, Dir: c.opts.Dir, Controllers: true, Scheduler: true, Dial: c.dial, Progress: c.opts.Tell, AuditPolicy: c.opts.AuditPolicy,
		ControllersQPS: c.opts.ControllersQPS, ControllersBurst: c.opts.ControllersBurst, SchedulerQPS: c.opts.SchedulerQPS, SchedulerBurst: c.opts.SchedulerBurst, DefaultSpread: spread,
	}); err != nil {
		return err
	}
	c.Config, c.Kubeconfig = c.plane.Config, c.plane.Kubeconfig
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if c.Client, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// startWorld starts what needs only the control plane: our kinds, the AWS simulator, kwok, and the cluster's own objects.
func (c *Cluster) startWorld(ctx context.Context) error {
	kinds, err := kubelet.Kinds()
	if err != nil {
		return err
	}
	manifests := append([]string{systemManifest}, c.ownManifests()...)
	if c.opts.NoKarpenter {
		c.tell("starting %s and kwok", c.simulator())
	} else {
		kinds = append(kinds, c.karpenterKinds()...)
		c.tell("installing Karpenter, starting %s and kwok", c.simulator())
	}
	var version string
	var port int
	err = together(
		func() (err error) {
			if err := c.plane.Install(ctx, kinds); err != nil {
				return err
			}
			port, err = startKwok(c.plane, c.opts.Dir)
			return err
		},
		func() (err error) {
			version, err = serverVersion(c.Config)
			return err
		},
		func() error { return applySystem(ctx, c.Client, manifests...) },
	)
	if err != nil {
		return err
	}
	c.nodes = newNodeKeeper(c.Client, c.opts.ClusterName, c.tell)
	c.nodes.kubelet = kubeletFacts{version: version, port: int32(port)}
	if c.opts.Provider == ProviderClusterAPI {
		return c.startClusterAPI(ctx)
	}
	return c.startAWS(ctx, version)
}

// startAWS starts the AWS simulator.
func (c *Cluster) startAWS(ctx context.Context, version string) error {
	authority, err := os.ReadFile(c.plane.CA)
	if err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	c.aws, err = startAWS(ctx, awsOptions{
		dir: c.opts.Dir, region: c.opts.Region, bootTime: c.opts.BootTime, steadySpot: c.opts.Predict, watcher: c.nodes,
		cluster: simaws.Cluster{
			Name: c.opts.ClusterName, Version: minorOf(version), Endpoint: c.plane.Endpoint(),
			CertificateAuthority: base64.StdEncoding.EncodeToString(authority), ServiceCIDR: plane.ServiceRange,
		},
	})
	if err != nil {
		return err
	}
	c.AWS, c.AWSURL = c.aws.Sim, c.aws.url
	return c.aws.prepare(c.opts.ClusterName)
}

// startNodes brings the nodes up to date with the instances, and adds the system node.
func (c *Cluster) startNodes(ctx context.Context) error {
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	c.endWork = end
	c.work.Go(func() { c.nodes.run(working) })
	c.work.Go(func() { c.nodes.leases.run(working) })
	if c.opts.Provider != ProviderClusterAPI {
		volumes := &volumeKeeper{kube: c.Client}
		c.work.Go(func() { volumes.run(working) })
	}
	if err := c.startPods(ctx); err != nil {
		return err
	}
	if err := movePort(ctx, c.Client, c.nodes.kubelet.port); err != nil {
		return err
	}
	c.tell("waiting for the system node")
	join := c.launchSystem
	if c.opts.Provider == ProviderClusterAPI {
		join = c.joinSystem
	}
	if err := join(ctx); err != nil {
		return err
	}
	return together(
		func() error { return awaitSystem(ctx, c.Client) },
		func() error {
			switch {
			case c.opts.NoDefaults:
				return nil
			case c.opts.Provider == ProviderClusterAPI:
				return c.createMachineDefaults(ctx)
			case c.opts.NoKarpenter:
				return nil
			}
			c.tell("creating NodePool default and EC2NodeClass default")
			// The API server holds up the first objects of a new kind for 2 s.
			return createDefaults(ctx, c.Client, strings.ReplaceAll(defaultsManifest, "CLUSTER", c.opts.ClusterName))
		},
	)
}

// launchSystem has the nodes follow the instances, and launches those of the system.
func (c *Cluster) launchSystem(ctx context.Context) error {
	if err := c.nodes.catchUp(ctx, c.aws); err != nil {
		return err
	}
	return c.aws.atOnce(func() error { return c.aws.launchSystem(c.aws.cluster, c.systemNodes()) })
}

// systemNodes is how many nodes the cluster's own pods need: the chart's two replicas do not share one.
func (c *Cluster) systemNodes() int {
	if c.opts.NoKarpenter {
		return 2
	}
	return 1
}

func (c *Cluster) awaitKarpenter(ctx context.Context) error {
	if c.opts.NoKarpenter {
		return nil
	}
	c.tell("waiting for the controller")
	if err := awaitController(ctx, c.Client); err != nil {
		return err
	}
	if err := awaitConversion(ctx, c.Client); err != nil && ctx.Err() == nil {
		c.tell("%v", err)
	}
	if c.opts.NoDefaults {
		return ctx.Err()
	}
	if err := awaitDefaults(ctx, c.Client); err != nil && ctx.Err() == nil {
		c.tell("%v", err)
	}
	return ctx.Err()
}

// Stop ends everything, in order, and keeps the cluster in its folder.
func (c *Cluster) Stop() error {
	if pods := c.pods.Load(); pods != nil {
		pods.Stop()
	}
	for _, listener := range c.forwards {
		_ = listener.Close()
	}
	if c.aws != nil {
		c.aws.Freeze()
	}
	if c.capi != nil {
		c.capi.stop()
	}
	if c.endWork != nil { // with what the AWS simulator has told last
		c.endWork()
		c.work.Wait()
	}
	var err error
	if c.aws != nil {
		err = c.aws.Close()
	}
	if c.capi != nil && c.capi.apart != nil {
		c.capi.apart.Stop()
	}
	if c.plane != nil {
		c.plane.Stop()
	}
	return errors.Join(err, c.folder.Close())
}

// Wait returns when ctx ends, or with an error when a part of the cluster has ended that is not started again.
func (c *Cluster) Wait(ctx context.Context) error { return c.plane.Wait(ctx) }

// Play plays a scenario on the cluster, tells what happened, and returns an error if a step failed or an expectation did not come true.
func (c *Cluster) Play(ctx context.Context, s *scenario.Scenario) error {
	target := &scenario.Cluster{
		Client: c.Client, Kubeconfig: c.Kubeconfig, AWS: c.AWS, AWSURL: c.AWSURL, Region: c.opts.Region, Kube: c.opts.Binary, Dir: c.opts.Dir,
		Predict: c.opts.Predict, Program: c.opts.Program, Tell: c.tell, Wait: c.Wait, Kill: c.KillController, LogTail: c.LogTail,
	}
	if target.Launched, target.End = c.launchedMachines, endMachines; c.aws != nil {
		target.Launched, target.End = c.aws.launched, c.aws.end
	}
	return s.Play(ctx, target)
}

// together runs steps that do not need each other, and returns when all have ended.
func together(steps ...func() error) error {
	errs := make([]error, len(steps))
	var wait sync.WaitGroup
	for i, step := range steps {
		wait.Go(func() { errs[i] = step() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func serverVersion(config *rest.Config) (string, error) {
	clients, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	version, err := clients.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return version.GitVersion, nil
}

// newScheme knows Kubernetes' own kinds and ours.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, v1alpha1.AddToScheme, bufferv1.AddToScheme, awsv1.AddToScheme, capiv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// minorOf is 1.37 of v1.37.1.
func minorOf(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
