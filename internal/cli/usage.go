package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"karpenter/internal/engine/why"
)

// The groups that help lists commands by.
const (
	groupLook = "look"
	groupTry  = "try"
	groupMove = "move"
	groupRun  = "run"
)

// commandGroups says which command is in which.
var commandGroups = map[string]string{
	"plan": groupLook, "explain": groupLook, "top": groupLook, "dashboard": groupLook, "decisions": groupLook, "replay": groupLook, "local": groupTry, "aws-sim": groupTry, "sim": groupTry,
	"import": groupMove, "convert": groupMove, "controller": groupRun,
}

// Guide makes the program say what a newcomer has to know: help lists commands by what they are for, and a command line that makes no
// sense gets an error that says what would.
func Guide(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Look at a cluster (nothing is changed):"}, &cobra.Group{ID: groupTry, Title: "Try it on this computer, without a cloud account:"},
		&cobra.Group{ID: groupMove, Title: "Migrate:"}, &cobra.Group{ID: groupRun, Title: "Run it:"},
	)
	root.SetFlagErrorFunc(flagError)
	for _, cmd := range root.Commands() {
		cmd.GroupID = commandGroups[cmd.Name()]
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if check(cmd, args) != nil {
					return argumentError(cmd, args)
				}
				return nil
			}
		}
	}
}

// named is what errors call a command: they are printed after the program's name.
func named(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "the program"
	}
	return cmd.Name()
}

// argumentError says how a command is called.
func argumentError(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs more arguments; it is called as: %s", named(cmd), cmd.UseLine())
	}
	return fmt.Errorf("%s does not take %q; it is called as: %s", named(cmd), strings.Join(args, " "), cmd.UseLine())
}

// flagError says what is wrong with a flag, and what would be right.
func flagError(cmd *cobra.Command, err error) error {
	if wrong, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return fmt.Errorf("--%s is %q; give %s", wrong.GetFlag().Name, wrong.GetValue(), valueWords(wrong.GetFlag().Value.Type(), wrong.Unwrap()))
	}
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is && unknown.GetSpecifiedShortnames() == "" {
		name := "--" + unknown.GetSpecifiedName()
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, "--"+f.Name)
			}
		})
		if meant := why.Similar(name, known); meant != "" {
			return fmt.Errorf("%s has no flag %s; did you mean %s?", named(cmd), name, meant)
		}
		return fmt.Errorf("%s has no flag %s; %s --help lists those that it has", named(cmd), name, cmd.CommandPath())
	}
	return fmt.Errorf("%w; %s --help says what flags there are", err, cmd.CommandPath())
}

// valueWords says what a flag of a type takes.
func valueWords(kind string, failure error) string {
	switch kind {
	case "bool":
		return "true or false"
	case "float32", "float64":
		return "a number, such as 12.5"
	case "int", "int32", "int64", "uint", "uint32", "uint64":
		return "a whole number"
	case "duration":
		return "a length of time, such as 30s or 5m"
	}
	return "another value: " + failure.Error()
}
