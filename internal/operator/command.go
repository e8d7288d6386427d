package operator

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"karpenter/cloud/plug"
)

// NewCommand returns the command that runs the controller with one of the providers. version is the program's; the first provider is
// the one that is taken unless another is named.
func NewCommand(version string, providers ...plug.Plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller against the cluster that KUBECONFIG names, or that it runs in",
		Long: `Run the controller until it is told to end. It reaches the API server by the file that KUBECONFIG names, or from inside the
cluster. Every flag is also a variable of the environment, in capitals and with underscores; the flag wins.`,
		Args: cobra.NoArgs,
	}
	for i, p := range providers {
		cmd.Long += "\n" + p.Help
		if i > 0 {
			cmd.Example += "\n"
		}
		cmd.Example += "  " + p.Example + " KUBECONFIG=~/.kube/config SYSTEM_NAMESPACE=kube-system karpenter controller"
	}
	flags := cmd.Flags()
	settings := Settings(providers...)
	for _, s := range settings {
		if flags.Lookup(s.Flag()) != nil {
			continue // providers share it
		}
		flags.String(s.Flag(), s.Default, s.Help+" ("+s.Env+")")
		if s.Bool {
			flags.Lookup(s.Flag()).NoOptDefVal = "true"
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given := map[string]string{}
		for _, s := range settings {
			if flags.Changed(s.Flag()) {
				given[s.Flag()] = flags.Lookup(s.Flag()).Value.String()
			}
		}
		options, err := ParseOptions(Source{Flags: given, Getenv: os.Getenv}, providers...)
		if err != nil {
			return err
		}
		return start(cmd.Context(), options, Build{Version: version, Commit: commit()})
	}
	return cmd
}

// start makes what is real, once, and runs the controller with it.
func start(ctx context.Context, options *Options, build Build) error {
	log, closeLog, err := newLogger(options, build.Commit, time.Now)
	if err != nil {
		return err
	}
	defer closeLog()
	config, err := kubeConfig()
	if err != nil {
		return err
	}
	clock := newServerClock()
	config.Wrap(clock.follow)
	if err := Run(ctx, Process{Options: options, Build: build, Config: config, Clock: clock, Log: log}); err != nil {
		log.Error("the controller ended", "error", err)
		return fmt.Errorf("running the controller: %w", err)
	}
	return nil
}

// commit is what the program was built from, as far as the toolchain noted it.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(len(s.Value), 7)]
			}
		}
	}
	return "unknown"
}
