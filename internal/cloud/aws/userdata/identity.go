package userdata

import (
	"regexp"
	"strings"
)

// What every instance joins with. Without the taint pods would land on it before it is registered; the label keeps the
// node's taints as the instance set them.
var (
	unregistered = Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}
	markedLabels = map[string]string{"karpenter.sh/do-not-sync-taints": "true"}
)

// closedDomains, with their subdomains, are closed to a kubelet that labels itself: API server and kubelet refuse most
// keys of them. Karpenter puts such labels on the node when it registers.
var closedDomains = []string{"kubernetes.io", "k8s.io"}

// joinLabels are the labels that the instance itself puts on its node.
func (o *Options) joinLabels() map[string]string {
	labels := make(map[string]string, len(o.Labels)+len(markedLabels))
	for key, value := range o.Labels {
		if !closed(key) {
			labels[key] = value
		}
	}
	for key, value := range markedLabels {
		labels[key] = value
	}
	return labels
}

func closed(key string) bool {
	domain, _, has := strings.Cut(key, "/")
	if !has {
		return false
	}
	for _, shut := range closedDomains {
		if domain == shut || strings.HasSuffix(domain, "."+shut) {
			return true
		}
	}
	return false
}

// joinTaints are the claim's taints and unregistered, in the order given. Of two with the same key and effect the first
// stays: a kubelet does not start with both.
func (o *Options) joinTaints() []Taint {
	type identity struct{ key, effect string }
	seen := make(map[identity]bool, len(o.Taints)+1)
	taints := make([]Taint, 0, len(o.Taints)+1)
	for _, list := range [][]Taint{o.Taints, {unregistered}} {
		for _, taint := range list {
			id := identity{taint.Key, taint.Effect}
			if seen[id] {
				continue
			}
			seen[id] = true
			taints = append(taints, taint)
		}
	}
	return taints
}

func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// The syntax of Kubernetes. It is checked here although the API server has done so, because text that passes it needs
// no escaping in a shell, a systemd unit or PowerShell, and bootstrap scripts hand it through all of them unescaped.
var (
	labelName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelDomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// maxDomain is the longest DNS name that can prefix a key.
const maxDomain = 253

func isLabelKey(key string) bool {
	domain, name, has := strings.Cut(key, "/")
	if !has {
		return labelName.MatchString(key)
	}
	return len(domain) <= maxDomain && labelDomain.MatchString(domain) && labelName.MatchString(name)
}

func isLabelValue(value string) bool {
	return value == "" || labelName.MatchString(value)
}
