package main

import (
	"strings"
	"testing"

	"karpenter/cloud/controller"
	"karpenter/internal/clouds"
)

// The image's program is called as the command line is, and says what it has not.
func TestCommand(t *testing.T) {
	for args, want := range map[string]string{
		"--version":          "karpenter version unknown",
		"controller --help":  "--cluster-name",
		"explain pod web":    `there is no command "explain" in the image`,
		"completion bash":    `there is no command "completion" in the image`,
		"controller nothing": `unknown command "nothing"`,
		"":                   "controller  Run the controller",
	} {
		root := controller.Command(version, clouds.Plugins()...)
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(strings.Fields(args))
		got := out.String
		if err := root.ExecuteContext(t.Context()); err != nil {
			got = err.Error
		}
		if !strings.Contains(got(), want) {
			t.Errorf("karpenter %s: %q, want %q in it", args, got(), want)
		}
	}
}
