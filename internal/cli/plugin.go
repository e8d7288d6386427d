package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// The names by which kubectl finds a plugin, and what completes its command line.
const (
	pluginName    = "kubectl-karpenter"
	completerName = "kubectl_complete-karpenter"
)

// PluginArgs are the arguments of the program. Called by the name that kubectl completes a plugin with, it is to complete.
func PluginArgs(args []string) []string {
	if len(args) == 0 || programName(args[0]) != completerName {
		return args
	}
	return append([]string{args[0], cobra.ShellCompRequestCmd}, args[1:]...)
}

// NameAfter makes help texts say what was typed: karpenter, or kubectl karpenter.
func NameAfter(root *cobra.Command, program string) {
	if name := programName(program); name != pluginName && name != completerName {
		return
	}
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[cobra.CommandDisplayNameAnnotation] = "kubectl karpenter"
	renameExamples(root)
}

func renameExamples(cmd *cobra.Command) {
	lines := strings.Split(cmd.Example, "\n")
	for i, line := range lines {
		trimmed := strings.TrimLeft(line, " ")
		if strings.HasPrefix(trimmed, "karpenter ") {
			lines[i] = line[:len(line)-len(trimmed)] + "kubectl " + trimmed
		}
		lines[i] = strings.ReplaceAll(lines[i], "| karpenter ", "| kubectl karpenter ")
	}
	cmd.Example = strings.Join(lines, "\n")
	for _, sub := range cmd.Commands() {
		renameExamples(sub)
	}
}

func programName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}
