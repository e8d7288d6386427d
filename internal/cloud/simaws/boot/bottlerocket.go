package boot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlTable is how a table arrives where its keys are not known.
type tomlTable = map[string]any

// bottlerocket reads Bottlerocket settings.
func (n *Node) bottlerocket(text string) error {
	var t tomlTable
	if err := toml.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("bottlerocket: user data is not valid TOML: %w", err)
	}
	settings, ok := t["settings"].(tomlTable)
	if !ok {
		return errors.New("bottlerocket: user data has no [settings]")
	}
	k, ok := settings["kubernetes"].(tomlTable)
	if !ok {
		return errors.New("bottlerocket: user data has no [settings.kubernetes]")
	}
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if err := n.setting(name, k[name]); err != nil {
			return fmt.Errorf("bottlerocket: settings.kubernetes.%s: %w", name, err)
		}
	}
	for _, f := range [][2]string{{"cluster-name", n.ClusterName}, {"api-server", n.Endpoint}, {"cluster-certificate", n.CA}} {
		if f[1] == "" {
			return fmt.Errorf("bottlerocket: settings.kubernetes.%s is missing", f[0])
		}
	}
	if boots, ok := settings["bootstrap-commands"].(tomlTable); ok {
		for name := range boots {
			if strings.Contains(name, "mount-instance-storage") {
				n.LocalStorage = "raid0"
			}
		}
	}
	return nil
}

func (n *Node) setting(name string, v any) error {
	switch name {
	case "cluster-name":
		return text(v, &n.ClusterName)
	case "api-server":
		return text(v, &n.Endpoint)
	case "cluster-certificate":
		return text(v, &n.CA)
	case "cluster-dns-ip":
		var err error
		n.ClusterDNS, err = texts(v)
		return err
	case "max-pods":
		return whole(v, &n.MaxPods)
	case "pods-per-core":
		return errors.New("the setting does not exist")
	case "node-labels":
		return texttable(v, &n.Labels)
	case "node-taints":
		return n.taintTable(v)
	case "kube-reserved":
		return texttable(v, &n.KubeReserved)
	case "system-reserved":
		return texttable(v, &n.SystemReserved)
	case "eviction-hard":
		return texttable(v, &n.EvictionHard)
	case "eviction-soft":
		return texttable(v, &n.EvictionSoft)
	case "eviction-soft-grace-period":
		return texttable(v, &n.EvictionSoftGrace)
	}
	n.Kubelet[camel(name)] = fmt.Sprint(v)
	return nil
}

// taintTable reads key = ["value:Effect", …], or a single such text.
func (n *Node) taintTable(v any) error {
	t, ok := v.(tomlTable)
	if !ok {
		return errors.New("must be a table")
	}
	for _, key := range slices.Sorted(maps.Keys(t)) {
		values, err := texts(t[key])
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for _, s := range values {
			value, effect, ok := cutLast(s, ":")
			if !ok {
				return fmt.Errorf("%s: %q must be value:Effect", key, s)
			}
			n.Taints = append(n.Taints, Taint{key, value, effect})
		}
	}
	return nil
}

func text(v any, into *string) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%v must be a string", v)
	}
	*into = s
	return nil
}

func texts(v any) ([]string, error) {
	if s, ok := v.(string); ok {
		return []string{s}, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%v must be a string or a list of strings", v)
	}
	var out []string
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, fmt.Errorf("%v must be a string", e)
		}
		out = append(out, s)
	}
	return out, nil
}

func whole(v any, into *int) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("%v must be an integer", v)
	}
	*into = int(n)
	return nil
}

func texttable(v any, into *map[string]string) error {
	t, ok := v.(tomlTable)
	if !ok {
		return errors.New("must be a table")
	}
	*into = map[string]string{}
	for k, e := range t {
		s, ok := e.(string)
		if !ok {
			return fmt.Errorf("%s: %v must be a string", k, e)
		}
		(*into)[k] = s
	}
	return nil
}
