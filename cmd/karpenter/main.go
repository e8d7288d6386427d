// Command karpenter is the whole program: each of its parts is a subcommand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"karpenter/internal/cli"
	"karpenter/internal/clouds"
	"karpenter/internal/local"
	"karpenter/internal/operator"
)

// version is set when the program is linked.
var version = "unknown"

func main() {
	local.Lifeline()
	os.Args = cli.PluginArgs(os.Args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := command()
	cli.NameAfter(root, os.Args[0])
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "karpenter:", text)
		}
		os.Exit(cli.ExitCode(err))
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "karpenter",
		Short: "Launches nodes for pods that are unschedulable and removes nodes that are no longer needed",
		Long: `Karpenter launches nodes for pods that are unschedulable and removes nodes that are no longer needed.

This one program is the controller, and everything to look at and try it with. The commands that look at a cluster take it from
the kubeconfig as kubectl does, and change nothing.`,
		Example: `  karpenter local                                   # a whole cluster on this computer, to play with
  karpenter plan -f deployment.yaml                 # what would this change, and cost?
  karpenter explain pod web-7d4b9c-x2x1p -n shop    # why is it pending?
  karpenter explain node ip-10-0-1-23.ec2.internal  # why is it still there?
  karpenter top                                     # nodes, what they cost, and whether they could be removed`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		cli.NewAWSSim(),
		operator.NewCommand(version, clouds.Plugins()...),
		cli.NewConvert(),
		cli.NewDashboard(),
		cli.NewDecisions(),
		cli.NewExplain(),
		cli.NewImport(version),
		local.NewCommand(),
		cli.NewPlan(),
		cli.NewReplay(version),
		cli.NewSim(),
		cli.NewTop(),
		cli.NewVersion(version),
	)
	cli.Guide(root)
	return root
}
