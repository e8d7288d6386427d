// Package boot reads user data the way the operating system of an AMI family
// would, and says what node comes out of it: which cluster it joins, with which
// labels, taints and kubelet settings. User data that a real node could not
// boot from gives an error that says why. The package is pure.
package boot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Node is what user data makes of an instance.
type Node struct {
	ClusterName string
	// Endpoint and CA (base64 PEM) may be empty where the family looks them up
	// by the cluster's name.
	Endpoint, CA, ServiceCIDR string
	Labels                    map[string]string
	Taints                    []Taint
	ClusterDNS                []string
	// MaxPods and PodsPerCore are 0 where nothing is said.
	MaxPods, PodsPerCore int
	KubeReserved         map[string]string
	SystemReserved       map[string]string
	EvictionHard         map[string]string
	EvictionSoft         map[string]string
	EvictionSoftGrace    map[string]string
	// LocalStorage is raid0 where local disks become the node's storage.
	LocalStorage string
	IPv6         bool
	// Kubelet holds every other kubelet setting, by its name in the kubelet
	// configuration, with its value as text.
	Kubelet map[string]string
}

// Taint is a taint that the node registers with.
type Taint struct{ Key, Value, Effect string }

// Decode reads user data for an AMI family: AL2, AL2023, Bottlerocket, Windows
// (also by year, as in Windows2022) or Custom. For Custom the format is
// recognised by its looks.
func Decode(family string, userData []byte) (Node, error) {
	text := string(userData)
	if strings.TrimSpace(text) == "" {
		return Node{}, errors.New("user data is empty, so nothing tells the instance which cluster to join")
	}
	n := Node{Labels: map[string]string{}, Kubelet: map[string]string{}}
	var err error
	switch family {
	case "AL2023":
		err = n.nodeadm(text)
	case "AL2":
		err = n.bootstrapScript(text)
	case "Bottlerocket":
		err = n.bottlerocket(text)
	case "Windows", "Windows2019", "Windows2022", "Windows2025":
		err = n.powershell(text)
	default:
		err = n.recognise(text)
	}
	if err != nil {
		return Node{}, err
	}
	return n, n.check()
}

// recognise tries the formats by what the text looks like.
func (n *Node) recognise(text string) error {
	switch {
	case strings.Contains(text, "node.eks.aws"):
		return n.nodeadm(text)
	case strings.Contains(text, "/etc/eks/bootstrap.sh"):
		return n.bootstrapScript(text)
	case strings.Contains(text, "<powershell>"):
		return n.powershell(text)
	case strings.Contains(text, "[settings"):
		return n.bottlerocket(text)
	}
	return errors.New("user data has neither a NodeConfig, a call of bootstrap.sh, Bottlerocket settings nor a PowerShell block")
}

// check finds what the kubelet would refuse to start with.
func (n *Node) check() error {
	if n.ClusterName == "" {
		return errors.New("user data names no cluster")
	}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		if k == "" || strings.ContainsAny(k, " \t") {
			return fmt.Errorf("kubelet: label key %q is not valid", k)
		}
		if protected(k) {
			return fmt.Errorf("kubelet: unknown label %q specified with --node-labels; the kubernetes.io and k8s.io domains are reserved", k)
		}
	}
	for _, t := range n.Taints {
		switch t.Effect {
		case "NoSchedule", "PreferNoSchedule", "NoExecute":
		default:
			return fmt.Errorf("kubelet: taint %s has effect %q, must be NoSchedule, PreferNoSchedule or NoExecute", t.Key, t.Effect)
		}
	}
	if n.MaxPods < 0 || n.PodsPerCore < 0 {
		return fmt.Errorf("kubelet: maxPods %d and podsPerCore %d must not be negative", n.MaxPods, n.PodsPerCore)
	}
	return nil
}

// allowedLabels are labels of reserved domains that a kubelet may set itself.
var allowedLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
	"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
	"topology.kubernetes.io/region", "topology.kubernetes.io/zone",
}

// protected says that the kubelet refuses to set a label.
func protected(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	reserved := domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io")
	if !reserved || slices.Contains(allowedLabels, key) {
		return false
	}
	return domain != "kubelet.kubernetes.io" && domain != "node.kubernetes.io" &&
		!strings.HasSuffix(domain, ".kubelet.kubernetes.io") && !strings.HasSuffix(domain, ".node.kubernetes.io")
}

// kubeletArgs reads a kubelet command line.
func (n *Node) kubeletArgs(line string) error {
	words, err := shellWords(line)
	if err != nil {
		return fmt.Errorf("kubelet arguments: %w", err)
	}
	for i := 0; i < len(words); i++ {
		name, value, has := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		if !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
		}
		if err := n.kubeletFlag(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) kubeletFlag(name, value string) error {
	switch name {
	case "node-labels":
		return n.addLabels(value)
	case "register-with-taints":
		return n.addTaints(value)
	case "max-pods":
		return number(name, value, &n.MaxPods)
	case "pods-per-core":
		return number(name, value, &n.PodsPerCore)
	case "cluster-dns":
		n.ClusterDNS = strings.Split(value, ",")
		return nil
	case "kube-reserved":
		return pairs(name, value, "=", &n.KubeReserved)
	case "system-reserved":
		return pairs(name, value, "=", &n.SystemReserved)
	case "eviction-hard":
		return pairs(name, value, "<", &n.EvictionHard)
	case "eviction-soft":
		return pairs(name, value, "<", &n.EvictionSoft)
	case "eviction-soft-grace-period":
		return pairs(name, value, "=", &n.EvictionSoftGrace)
	}
	n.Kubelet[camel(name)] = value
	return nil
}

// camel turns a flag into the configuration's name for it.
func camel(flag string) string {
	parts := strings.Split(flag, "-")
	for i, p := range parts {
		if i > 0 && p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func number(name, value string, into *int) error {
	v, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("kubelet: %s is %q, must be an integer", name, value)
	}
	*into = v
	return nil
}

func pairs(name, value, sep string, into *map[string]string) error {
	*into = map[string]string{}
	for _, p := range strings.Split(value, ",") {
		k, v, ok := strings.Cut(p, sep)
		if !ok {
			return fmt.Errorf("kubelet: %s has %q, must be name%svalue", name, p, sep)
		}
		(*into)[k] = v
	}
	return nil
}

func (n *Node) addLabels(text string) error {
	for _, p := range strings.Split(text, ",") {
		if p == "" {
			continue
		}
		k, v, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("kubelet: label %q must be key=value", p)
		}
		n.Labels[k] = v
	}
	return nil
}

// addTaints reads key=value:Effect, or key:Effect for a taint without value.
func (n *Node) addTaints(text string) error {
	for _, p := range strings.Split(text, ",") {
		if p == "" {
			continue
		}
		head, effect, ok := cutLast(p, ":")
		if !ok {
			return fmt.Errorf("kubelet: taint %q must be key=value:Effect", p)
		}
		k, v, _ := strings.Cut(head, "=")
		n.Taints = append(n.Taints, Taint{k, v, effect})
	}
	return nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
