package setting

import (
	"fmt"
	"slices"
	"strings"
)

// Gate is a feature that can be turned on and off.
type Gate struct {
	Name string
	// On is its default, Into where the answer goes.
	On   bool
	Into *bool
	// Absent features are not part of this version: turning one on changes nothing, and is said.
	Absent bool
}

// Gates is a setting that names features. What has no effect is told to warn.
func Gates(s Setting, warn func(string), known ...Gate) Setting {
	var list []string
	for _, g := range known {
		list = append(list, fmt.Sprintf("%s=%t", g.Name, g.On))
	}
	s.Default = strings.Join(list, ",")
	s.Set = func(v string) error { return readGates(v, s.Env, warn, known) }
	return s
}

func readGates(v, variable string, warn func(string), known []Gate) error {
	for _, g := range known {
		*g.Into = g.On
	}
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		on, err := parseBool(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return fmt.Errorf("%q: must be a list such as %s=true", part, known[0].Name)
		}
		i := slices.IndexFunc(known, func(g Gate) bool { return g.Name == name })
		switch {
		case i < 0:
			names := make([]string, len(known))
			for i, g := range known {
				names[i] = g.Name
			}
			warn(fmt.Sprintf("%s: there is no feature %s; it is ignored. Features are %s", variable, name, strings.Join(names, ", ")))
			continue
		case on && known[i].Absent:
			warn(fmt.Sprintf("%s: %s is not part of this version; it has no effect", variable, name))
		}
		*known[i].Into = on
	}
	return nil
}
