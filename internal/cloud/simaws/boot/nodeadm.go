package boot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodeConfig is what is read of a NodeConfig.
type nodeConfig struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Spec       struct {
		Cluster struct {
			Name     string `yaml:"name"`
			Endpoint string `yaml:"apiServerEndpoint"`
			CA       string `yaml:"certificateAuthority"`
			CIDR     string `yaml:"cidr"`
		} `yaml:"cluster"`
		Instance struct {
			LocalStorage struct {
				Strategy string `yaml:"strategy"`
			} `yaml:"localStorage"`
		} `yaml:"instance"`
		Kubelet struct {
			Config map[string]yaml.Node `yaml:"config"`
			Flags  []string             `yaml:"flags"`
		} `yaml:"kubelet"`
	} `yaml:"spec"`
}

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
		from := yaml.NewDecoder(strings.NewReader(p.text))
		for {
			var d nodeConfig
			if err := from.Decode(&d); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("nodeadm: NodeConfig is not valid YAML: %w", err)
			}
			if d.Kind != "NodeConfig" {
				return fmt.Errorf("nodeadm: kind is %q, must be NodeConfig", d.Kind)
			}
			if !strings.HasPrefix(d.APIVersion, "node.eks.aws/") {
				return fmt.Errorf("nodeadm: apiVersion is %q, must be node.eks.aws/v1alpha1", d.APIVersion)
			}
			found = true
			if err := n.configure(&d); err != nil {
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

func (n *Node) configure(d *nodeConfig) error {
	cluster := &d.Spec.Cluster
	n.ClusterName, n.Endpoint = cmp.Or(cluster.Name, n.ClusterName), cmp.Or(cluster.Endpoint, n.Endpoint)
	n.CA, n.ServiceCIDR = cmp.Or(cluster.CA, n.CA), cmp.Or(cluster.CIDR, n.ServiceCIDR)
	n.IPv6 = strings.Contains(n.ServiceCIDR, ":")
	n.LocalStorage = cmp.Or(strings.ToLower(d.Spec.Instance.LocalStorage.Strategy), n.LocalStorage)
	for _, key := range slices.Sorted(maps.Keys(d.Spec.Kubelet.Config)) {
		value := d.Spec.Kubelet.Config[key]
		if err := n.kubeletField(key, &value); err != nil {
			return fmt.Errorf("kubelet.config.%s: %w", key, err)
		}
	}
	for _, f := range d.Spec.Kubelet.Flags {
		name, value, _ := strings.Cut(strings.TrimLeft(f, "-"), "=")
		// The flags end up in a shell-quoted environment variable.
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if err := n.kubeletFlag(name, value); err != nil {
			return err
		}
	}
	return nil
}

// kubeletField reads one field of a kubelet configuration.
func (n *Node) kubeletField(key string, v *yaml.Node) error {
	switch key {
	case "maxPods":
		return count(key, v, &n.MaxPods)
	case "podsPerCore":
		return count(key, v, &n.PodsPerCore)
	case "clusterDNS":
		n.ClusterDNS = nil
		return v.Decode(&n.ClusterDNS)
	case "registerWithTaints":
		var taints []Taint
		err := v.Decode(&taints)
		n.Taints = append(n.Taints, taints...)
		return err
	case "kubeReserved":
		return table(v, &n.KubeReserved)
	case "systemReserved":
		return table(v, &n.SystemReserved)
	case "evictionHard":
		return table(v, &n.EvictionHard)
	case "evictionSoft":
		return table(v, &n.EvictionSoft)
	case "evictionSoftGracePeriod":
		return table(v, &n.EvictionSoftGrace)
	}
	var other any
	err := v.Decode(&other)
	n.Kubelet[key] = fmt.Sprint(other)
	return err
}

func count(key string, v *yaml.Node, into *int) error {
	var text string
	if err := v.Decode(&text); err != nil {
		return err
	}
	return number(key, text, into)
}

func table(v *yaml.Node, into *map[string]string) error {
	*into = map[string]string{}
	return v.Decode(into)
}
