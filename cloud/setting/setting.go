// Package setting is how a part of the program takes what flags and environment say: a list of settings, each of which puts its value
// where it belongs. The controller has such a list, and so has every provider. The package reads neither: Read is given both.
package setting

import (
	"errors"
	"fmt"
	"strings"
)

// Setting is one variable of the environment, which is also a flag.
type Setting struct {
	// Env is the variable's name; ID the feature that asks for it.
	Env, ID, Default, Help string
	// Bool settings may be given as a flag without a value.
	Bool bool
	// Set takes the value. Its error says what would be right.
	Set func(value string) error
}

// Flag is the setting's name as a flag, without dashes in front.
func (s Setting) Flag() string { return strings.ReplaceAll(strings.ToLower(s.Env), "_", "-") }

// Source is where settings come from: flags that were given, by their name without dashes, and the environment.
type Source struct {
	Flags  map[string]string
	Getenv func(string) string
}

// Read sets everything: a flag beats a variable of the environment, which beats the default. An empty variable is one that is not
// set. The errors name everything that is wrong.
func (from Source) Read(settings []Setting) error {
	var wrong []error
	for _, s := range settings {
		value, name := s.Default, s.Env
		if env := from.Getenv(s.Env); env != "" {
			value = env
		}
		if given, ok := from.Flags[s.Flag()]; ok {
			value, name = given, "--"+s.Flag()
		}
		if err := s.Set(value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s=%q: %w", name, value, err))
		}
	}
	return errors.Join(wrong...)
}
