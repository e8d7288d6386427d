package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// NewVersion returns the command that says which version of the program this is.
func NewVersion(version string) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			switch output {
			case "text":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "karpenter %s, %s, %s\n", version, runtime.Version(), platform)
				return err
			case "json", "yaml":
				return encode(cmd.OutOrStdout(), output, map[string]string{"version": version, "goVersion": runtime.Version(), "platform": platform}, "")
			}
			return fmt.Errorf("--output is %q; give text, json or yaml", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "text for people, json or yaml for programs")
	completeWords(cmd, map[string][]string{"output": {"text", "json", "yaml"}})
	return cmd
}
