package boot

import (
	"errors"
	"fmt"
	"strings"

	"karpenter/internal/cloud/simaws/yaml"
)

// nodeadm reads AL2023 user data: NodeConfig documents, alone or as parts of
// type application/node.eks.aws. Later documents win over earlier ones.
func (n *Node) nodeadm(text string) error {
	ps, err := parts(text)
	if err != nil {
		return err
	}
	found := false
	for _, p := range ps {
		if p.kind != "application/node.eks.aws" && (p.kind != "" || strings.HasPrefix(strings.TrimSpace(p.text), "#!")) {
			continue
		}
		docs, err := yaml.Parse(p.text)
		if err != nil {
			return fmt.Errorf("nodeadm: NodeConfig is not valid YAML: %w", err)
		}
		for _, d := range docs {
			if kind := d.Get("kind").String(); kind != "NodeConfig" {
				return fmt.Errorf("nodeadm: kind is %q, must be NodeConfig", kind)
			}
			if v := d.Get("apiVersion").String(); !strings.HasPrefix(v, "node.eks.aws/") {
				return fmt.Errorf("nodeadm: apiVersion is %q, must be node.eks.aws/v1alpha1", v)
			}
			found = true
			if err := n.nodeConfig(d.Get("spec")); err != nil {
				return fmt.Errorf("nodeadm: %w", err)
			}
		}
	}
	if !found {
		return errors.New("nodeadm: user data holds no NodeConfig")
	}
	for _, f := range [][2]string{{"name", n.ClusterName}, {"apiServerEndpoint", n.Endpoint}, {"certificateAuthority", n.CA}, {"cidr", n.ServiceCIDR}} {
		if f[1] == "" {
			return fmt.Errorf("nodeadm: spec.cluster.%s is missing in the cluster configuration", f[0])
		}
	}
	return nil
}

func (n *Node) nodeConfig(spec *yaml.Node) error {
	cluster := spec.Get("cluster")
	for key, into := range map[string]*string{"name": &n.ClusterName, "apiServerEndpoint": &n.Endpoint, "certificateAuthority": &n.CA, "cidr": &n.ServiceCIDR} {
		if v := cluster.Get(key).String(); v != "" {
			*into = v
		}
	}
	n.IPv6 = strings.Contains(n.ServiceCIDR, ":")
	if s := spec.At("instance", "localStorage", "strategy").String(); s != "" {
		n.LocalStorage = strings.ToLower(s)
	}
	if config := spec.At("kubelet", "config"); config != nil {
		for _, f := range config.Fields {
			if err := n.kubeletField(f); err != nil {
				return fmt.Errorf("kubelet.config.%s: %w", f.Key, err)
			}
		}
	}
	if flags := spec.At("kubelet", "flags"); flags != nil {
		for _, f := range flags.Items {
			name, value, _ := strings.Cut(strings.TrimLeft(f.String(), "-"), "=")
			// The flags end up in a shell-quoted environment variable.
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if err := n.kubeletFlag(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// kubeletField reads one field of a kubelet configuration.
func (n *Node) kubeletField(f yaml.Field) error {
	switch f.Key {
	case "maxPods":
		return number("maxPods", f.Value.String(), &n.MaxPods)
	case "podsPerCore":
		return number("podsPerCore", f.Value.String(), &n.PodsPerCore)
	case "clusterDNS":
		if f.Value.Kind != yaml.Sequence {
			return errors.New("must be a list")
		}
		n.ClusterDNS = nil
		for _, i := range f.Value.Items {
			n.ClusterDNS = append(n.ClusterDNS, i.String())
		}
	case "registerWithTaints":
		if f.Value.Kind != yaml.Sequence {
			return errors.New("must be a list")
		}
		for _, t := range f.Value.Items {
			n.Taints = append(n.Taints, Taint{t.Get("key").String(), t.Get("value").String(), t.Get("effect").String()})
		}
	case "kubeReserved":
		return table(f.Value, &n.KubeReserved)
	case "systemReserved":
		return table(f.Value, &n.SystemReserved)
	case "evictionHard":
		return table(f.Value, &n.EvictionHard)
	case "evictionSoft":
		return table(f.Value, &n.EvictionSoft)
	case "evictionSoftGracePeriod":
		return table(f.Value, &n.EvictionSoftGrace)
	default:
		n.Kubelet[f.Key] = fmt.Sprint(f.Value.Any())
	}
	return nil
}

func table(v *yaml.Node, into *map[string]string) error {
	if v.Kind != yaml.Mapping {
		return errors.New("must be a mapping")
	}
	*into = map[string]string{}
	for _, f := range v.Fields {
		(*into)[f.Key] = f.Value.String()
	}
	return nil
}
