// Package controller is the controller as a program: with the providers that it is given, and nothing else. Our own image holds it with
// ours; whoever writes another provider holds it with that.
package controller

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"karpenter/cloud/plug"
	"karpenter/internal/operator"
)

// Main runs the program and ends the process. It is called as the command line is, "karpenter controller", so that a chart does not know
// which of the two it starts.
func Main(version string, providers ...plug.Plugin) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Command(version, providers...).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// Command is the program, with "controller" as its only command.
func Command(version string, providers ...plug.Plugin) *cobra.Command {
	root := &cobra.Command{
		Use:               "karpenter",
		Short:             "Launches nodes for pods that are unschedulable and removes nodes that are no longer needed",
		Long:              "The controller of Karpenter, as its image holds it. The command line, with plan, explain, top and the rest, is a program of its own.",
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no command %q in the image of the controller, which has only \"controller\"; the command line has the others", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(operator.NewCommand(version, providers...))
	return root
}
