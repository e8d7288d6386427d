package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"karpenter/internal/local/plane"
	"karpenter/internal/operator"
)

// options are the flags of the command.
type options struct {
	binary string
	dir    string
	fresh  bool
}

// NewCommand returns the command that runs a cluster on this machine until it is interrupted.
func NewCommand() *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run a whole cluster on this machine",
		Long: `Run a whole cluster on this machine: a real Kubernetes control plane with NodePool, NodeClaim and EC2NodeClass in it, in v1 and
v1beta1. Ctrl-C stops it; what is in the cluster is kept for the next time.

This version launches no nodes yet: objects are validated, converted, judged and kept.`,
		Example: `  karpenter local
  karpenter local --fresh --dir /tmp/second`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&opts.binary, "kube", "", "the control plane binary (default: the file kube beside this program)")
	cmd.Flags().StringVar(&opts.dir, "dir", "", "where the cluster is kept (default: karpenter-local in the user's cache folder)")
	cmd.Flags().BoolVar(&opts.fresh, "fresh", false, "drop what an earlier run left in the folder")
	return cmd
}

func (o options) run(ctx context.Context, out io.Writer) error {
	if err := o.complete(); err != nil {
		return err
	}
	folder, err := claimFolder(o.dir, o.fresh)
	if err != nil {
		return err
	}
	defer folder.Close()
	progress := func(message string) { fmt.Fprintln(out, message) }
	p, err := plane.Start(ctx, plane.Options{Binary: o.binary, Dir: o.dir, Controllers: true, Scheduler: true, Progress: progress})
	if err != nil {
		return err
	}
	defer p.Stop()
	progress("installing NodePool, NodeClaim and EC2NodeClass")
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	kinds, err := ServeKinds(ctx, p, log)
	if err != nil {
		return err
	}
	defer kinds.Stop()
	controllers := make(chan error, 1)
	go func() { controllers <- operator.Run(ctx, operator.Options{Config: p.Config, Log: log}) }()
	fmt.Fprintf(out, `
The cluster is ready. In another terminal:

  export KUBECONFIG=%s
  export PATH=%s:$PATH    # for kubectl, if you have none
  kubectl apply -R -f examples/
  kubectl get nodepools,ec2nodeclasses

This version launches no nodes yet: objects are validated, converted, judged and kept.
Ctrl-C stops the cluster and keeps it in %s.
`, p.Kubeconfig, filepath.Dir(o.binary), o.dir)
	err = <-controllers
	fmt.Fprintln(out, "stopping")
	return err
}

// complete fills in what the flags left out.
func (o *options) complete() error {
	if o.binary == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding the control plane binary: %w", err)
		}
		o.binary = filepath.Join(filepath.Dir(self), "kube")
	}
	if o.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("finding a folder for the cluster (--dir names one): %w", err)
		}
		o.dir = filepath.Join(cache, "karpenter-local")
	}
	return nil
}
