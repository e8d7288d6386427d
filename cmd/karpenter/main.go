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
	"karpenter/internal/local"
	"karpenter/internal/operator"
)

// version is set when the program is linked.
var version = "unknown"

func main() {
	local.Lifeline()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "karpenter",
		Short:         "Turns pods that nothing can place into machines, and machines that nothing needs back into money",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		cli.NewAWSSim(),
		operator.NewCommand(version),
		cli.NewConvert(),
		local.NewCommand(),
		cli.NewPlan(),
	)
	return root
}
