package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/local/scenario"
)

// defaultBootTime is short enough to watch and long enough to see the states of a node that is coming. On AWS it takes
// half a minute to a minute.
const defaultBootTime = 10 * time.Second

// flags are the flags of the command.
type flags struct {
	Options
	scenario string
	kubeQPS  int
}

// NewCommand returns the command that runs a cluster on this computer until it is interrupted.
func NewCommand() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run a whole cluster on this computer",
		Long: `Run a whole cluster on this computer, without a cloud account: a real Kubernetes control plane and scheduler, an AWS simulator
that launches instances, kwok as the kubelet of each, and Karpenter. Nodes and their pods are only simulated: nothing is
computed on them, and all else is the real thing. Ctrl-C stops it; what is in the cluster is kept for the next time.

With --provider cluster-api, Cluster API makes the nodes: its real controllers run in the cluster, on simulated infrastructure, with
MachineDeployments of several sizes to scale.

With --scenario it plays a script of workload changes and faults on a cluster of its own, prints what happened, and
ends with an error if something that the script expects did not come true.`,
		Example: `  karpenter local
  karpenter local --fresh --boot-time 45s
  karpenter local --dir second
  karpenter local --no-karpenter --dir helm
  karpenter local --provider cluster-api --dir cluster-api
  karpenter local --scenario examples/scenarios/walk-through.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	set := cmd.Flags()
	set.StringVar(&f.Binary, "kube", "", "the control plane binary (default: the file kube beside this program)")
	set.StringVar(&f.Dir, "dir", "", "where the cluster is kept (default: karpenter-local in the user's cache folder; with --scenario one that is removed at the end)")
	set.BoolVar(&f.Fresh, "fresh", false, "drop what an earlier run left in the folder")
	set.StringVar(&f.ClusterName, "cluster-name", "my-cluster", "the cluster's name, which roles and discovery tags carry")
	set.StringVar(&f.Provider, "provider", ProviderAWS, "who makes nodes: aws, the AWS simulator, or cluster-api, Cluster API on simulated infrastructure")
	set.BoolVar(&f.ManagementApart, "management-apart", false, "with --provider cluster-api: run Cluster API in a management cluster of its own")
	set.StringVar(&f.Region, "region", "us-west-2", "the region that instances are launched in")
	set.DurationVar(&f.BootTime, "boot-time", defaultBootTime, "how long an instance takes from its launch until its node registers")
	set.IntVar(&f.kubeQPS, "kube-qps", 0, "how many requests a second kube-scheduler and each controller of kube-controller-manager may send (default: as in any cluster, 50 and 20)")
	set.BoolVar(&f.NoDefaults, "no-defaults", false, "do not create NodePool default and its class, nor MachineDeployments")
	set.BoolVar(&f.NoKarpenter, "no-karpenter", false, "leave out everything of Karpenter, to install it with helm: the pods of its chart are run for real")
	set.StringVar(&f.scenario, "scenario", "", "a script to play instead of waiting for Ctrl-C")
	set.BoolVar(&f.Predict, "predict", false, "with --scenario: ask plan before each change, and fail if something else comes of it; spot prices stand still then")
	for _, without := range []string{"no-defaults", "scenario"} {
		cmd.MarkFlagsMutuallyExclusive("no-karpenter", without)
	}
	return cmd
}

func (f *flags) run(ctx context.Context, out io.Writer) error {
	var script *scenario.Scenario
	if f.scenario != "" {
		var err error
		if script, err = scenario.Read(f.scenario); err != nil {
			return err
		}
	}
	tidy, err := f.complete(script != nil)
	if err != nil {
		return err
	}
	defer tidy()
	if f.kubeQPS < 0 {
		return fmt.Errorf("--kube-qps=%d: give a number of requests a second, for example 200", f.kubeQPS)
	}
	f.ControllersQPS, f.ControllersBurst, f.SchedulerQPS, f.SchedulerBurst = f.kubeQPS, 2*f.kubeQPS, f.kubeQPS, 2*f.kubeQPS
	told := &teller{out: out, began: time.Now()}
	f.Tell = told.line
	cluster, err := Start(ctx, f.Options)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted before the cluster was ready")
	}
	if err != nil {
		return err
	}
	if script != nil {
		f.Tell("the cluster is ready; playing " + f.scenario)
		told.restart()
		err = cluster.Play(ctx, script)
	} else {
		f.Tell("the cluster is ready")
		f.greet(out, cluster)
		err = cluster.Wait(ctx)
		f.Tell("stopping")
	}
	if stopErr := cluster.Stop(); err == nil {
		err = stopErr
	}
	return err
}

// teller prints lines with the time since the start, one at a time.
type teller struct {
	out io.Writer

	mu    sync.Mutex
	began time.Time
}

func (t *teller) line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "%6.1fs  %s\n", time.Since(t.began).Seconds(), text)
}

// restart counts from now on.
func (t *teller) restart() {
	t.mu.Lock()
	t.began = time.Now()
	t.mu.Unlock()
}

func (f *flags) greet(out io.Writer, cluster *Cluster) {
	if f.NoKarpenter {
		values, simulator := fmt.Sprintf("settings.clusterName=%[1]s --set settings.interruptionQueue=%[1]s", f.ClusterName), "The AWS simulator is at\n"+cluster.AWSURL+"."
		if f.Provider == ProviderClusterAPI {
			values, simulator = "settings.provider=cluster-api", "Cluster API and its MachineDeployments are\nthere already."
		}
		fmt.Fprintf(out, greetWithout, cluster.Kubeconfig, filepath.Dir(f.Binary), values, simulator, f.Dir)
		return
	}
	if f.Provider == ProviderClusterAPI {
		fmt.Fprintf(out, greetMachines, cluster.Kubeconfig, filepath.Dir(f.Binary), cluster.DashboardURL, cluster.MetricsURL, f.Dir)
		return
	}
	fmt.Fprintf(out, `
In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl apply -f examples/guides/eks-node-provisioning/03-inflate.yaml
  kubectl get nodes,nodeclaims -L karpenter.sh/capacity-type,node.kubernetes.io/instance-type --watch

The dashboard is at %s
kubectl logs -n kube-system -l app.kubernetes.io/name=karpenter -f shows what the controller does. The AWS simulator is at
%s, the controller's metrics are at %s.
Ctrl-C stops the cluster and keeps it in %s.

`, cluster.Kubeconfig, filepath.Dir(f.Binary), cluster.DashboardURL, cluster.AWSURL, cluster.MetricsURL, f.Dir)
}

// complete fills in what the flags left out, and returns how to remove what is only for this run.
func (f *flags) complete(temporary bool) (tidy func(), err error) {
	tidy = func() {}
	f.Program, err = os.Executable()
	if err != nil {
		return tidy, fmt.Errorf("finding this program's own file: %w", err)
	}
	if f.Binary == "" {
		f.Binary = filepath.Join(filepath.Dir(f.Program), "kube")
	}
	switch {
	case f.Provider != ProviderAWS && f.Provider != ProviderClusterAPI:
		return tidy, fmt.Errorf("--provider %s: give %s or %s", f.Provider, ProviderAWS, ProviderClusterAPI)
	case f.ManagementApart && f.Provider != ProviderClusterAPI:
		return tidy, errors.New("--management-apart is about Cluster API: give it with --provider cluster-api")
	case f.Predict && f.Provider != ProviderAWS:
		return tidy, errors.New("--predict is about the AWS simulator: leave it out with --provider cluster-api")
	case f.Predict && f.scenario == "":
		return tidy, errors.New("--predict is about the changes of a scenario: give it with --scenario")
	case f.BootTime < 0:
		return tidy, fmt.Errorf("--boot-time %v: it must not be negative", f.BootTime)
	case f.Dir != "":
	case temporary:
		if f.Dir, err = os.MkdirTemp("", "karpenter-scenario-"); err != nil {
			return tidy, fmt.Errorf("making a folder for the cluster (--dir names one): %w", err)
		}
		tidy = func() { _ = os.RemoveAll(f.Dir) }
	default:
		cache, err := os.UserCacheDir()
		if err != nil {
			return tidy, fmt.Errorf("finding a folder for the cluster (--dir names one): %w", err)
		}
		f.Dir = filepath.Join(cache, "karpenter-local")
	}
	return tidy, nil
}

// greetMachines is what to do with a cluster whose nodes come from Cluster API.
const greetMachines = `
In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl apply -f examples/guides/eks-node-provisioning/03-inflate.yaml
  kubectl get machinedeployments,machines,nodeclaims,nodes --watch

The dashboard is at %s
kubectl logs -n kube-system -l app.kubernetes.io/name=karpenter -f shows what the controller does, logs/capi-manager.log in the cluster's
folder what Cluster API does. The controller's metrics are at %s.
Ctrl-C stops the cluster and keeps it in %s.

`

// greetWithout is what to do with a cluster that has no Karpenter yet.
const greetWithout = `
Karpenter is not in this cluster yet. In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  helm upgrade --install karpenter charts/karpenter --namespace kube-system --set %s --wait
  kubectl get pods -n kube-system -l app.kubernetes.io/name=karpenter

docs/start/helm.md goes on from there. %s
Ctrl-C stops the cluster and keeps it in %s.

`
