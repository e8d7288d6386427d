package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/cloud/aws/awsplug"
)

// clusterFacts is what a snapshot says about node groups and who scales them.
type clusterFacts struct {
	raw         []byte
	nodes       []*corev1.Node
	autoscalers []*autoscaler
	// pinned are pods that Cluster Autoscaler is asked not to evict, by an annotation that only it reads.
	pinned []string
}

// safeToEvict is Cluster Autoscaler's word for what karpenter.sh/do-not-disrupt says here, the other way round.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// readClusterFacts reads a Kubernetes List.
func readClusterFacts(data []byte) (*clusterFacts, error) {
	var doc struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read snapshot: not a Kubernetes List in JSON: %w", err)
	}
	c := &clusterFacts{raw: data}
	for i, raw := range doc.Items {
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name, Namespace string
				Annotations     map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, fmt.Errorf("read snapshot: items[%d]: %w", i, err)
		}
		var err error
		switch head.Kind {
		case "Pod":
			if head.Metadata.Annotations[safeToEvict] == "false" {
				c.pinned = append(c.pinned, head.Metadata.Namespace+"/"+head.Metadata.Name)
			}
		case "Node":
			node := &corev1.Node{}
			err = json.Unmarshal(raw, node)
			c.nodes = append(c.nodes, node)
		case "Deployment":
			if bytes.Contains(raw, []byte("cluster-autoscaler")) {
				deployment := &appsv1.Deployment{}
				err = json.Unmarshal(raw, deployment)
				c.addAutoscaler(deployment)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read snapshot: %s %s: %w", head.Kind, head.Metadata.Name, err)
		}
	}
	slices.SortFunc(c.nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return c, nil
}

// autoscaler is a Deployment of Cluster Autoscaler.
type autoscaler struct {
	name     string
	replicas int32
	groups   []sizedGroup
	// discovery are the tags of which a group must have all, by flag.
	discovery [][]string
	// flags are all others, the last value of each.
	flags map[string]string
	// problems are flags that could not be read.
	problems []string
}

// sizedGroup is a value of --nodes.
type sizedGroup struct {
	min, max int32
	name     string
}

func (c *clusterFacts) addAutoscaler(d *appsv1.Deployment) {
	for i := range d.Spec.Template.Spec.Containers {
		container := &d.Spec.Template.Spec.Containers[i]
		if !strings.Contains(container.Image, "cluster-autoscaler") && !strings.Contains(container.Name, "cluster-autoscaler") {
			continue
		}
		a := &autoscaler{name: d.Namespace + "/" + d.Name, replicas: 1, flags: map[string]string{}}
		if d.Spec.Replicas != nil {
			a.replicas = *d.Spec.Replicas
		}
		a.parse(slices.Concat(container.Command, container.Args))
		c.autoscalers = append(c.autoscalers, a)
		return
	}
}

// parse reads flags in both forms, --flag=value and --flag value.
func (a *autoscaler) parse(words []string) {
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "-")
		if !ok {
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
		}
		switch name {
		case "nodes":
			if g, err := parseNodes(value); err != nil {
				a.problems = append(a.problems, err.Error())
			} else {
				a.groups = append(a.groups, g)
			}
		case "node-group-auto-discovery":
			if tags, ok := strings.CutPrefix(value, "asg:tag="); ok {
				a.discovery = append(a.discovery, strings.Split(tags, ","))
			} else {
				a.problems = append(a.problems, fmt.Sprintf("--node-group-auto-discovery=%s: only asg:tag=… is known", value))
			}
		default:
			a.flags[name] = value
		}
	}
}

// parseNodes reads min:max:name.
func parseNodes(value string) (sizedGroup, error) {
	bad := fmt.Errorf("--nodes=%s: must be MIN:MAX:NAME", value)
	parts := strings.SplitN(value, ":", 3)
	if len(parts) != 3 || parts[2] == "" {
		return sizedGroup{}, bad
	}
	least, err := strconv.ParseInt(parts[0], 10, 32)
	most, err2 := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || err2 != nil || least < 0 || most < least {
		return sizedGroup{}, bad
	}
	return sizedGroup{int32(least), int32(most), parts[2]}, nil
}

// scales reports whether Cluster Autoscaler sets the size of a group.
func (a *autoscaler) scales(g *awsplug.NodeGroup) bool {
	if slices.ContainsFunc(a.groups, func(s sizedGroup) bool { return s.name == g.ScalingGroup || s.name == g.Name }) {
		return true
	}
	return slices.ContainsFunc(a.discovery, func(tags []string) bool {
		return g.Tags != nil && !slices.ContainsFunc(tags, func(tag string) bool {
			key, value, valued := strings.Cut(tag, "=")
			have, ok := g.Tags[key]
			return !ok || valued && have != value
		})
	})
}

// warnings say what would go wrong if the pools were applied now.
func (c *clusterFacts) warnings(groups []awsplug.NodeGroup) []string {
	var out []string
	for _, a := range c.autoscalers {
		for _, problem := range a.problems {
			out = append(out, fmt.Sprintf("Deployment %s: %s; it is left out", a.name, problem))
		}
		var both []string
		for i := range groups {
			if a.scales(&groups[i]) {
				both = append(both, groups[i].Name)
			}
		}
		if a.replicas > 0 && len(both) > 0 {
			out = append(out, fmt.Sprintf("Deployment %s runs Cluster Autoscaler, which scales %s: while it does, both answer to the same pending pods and a pod may get two nodes. "+
				"Take these groups from it, or scale it to 0, before these pools take load (docs/operate/migrate-from-cluster-autoscaler.md, step 3)", a.name, strings.Join(both, ", ")))
		}
	}
	if n := len(c.pinned); n > 0 {
		out = append(out, fmt.Sprintf(`%s the annotation %s: "false", which only Cluster Autoscaler reads (%s): use karpenter.sh/do-not-disrupt: "true"`, count(n, "pod has", "pods have"), safeToEvict, shortPods(c.pinned)))
	}
	return out
}

// defaultUnneeded is Cluster Autoscaler's own default of --scale-down-unneeded-time.
const defaultUnneeded = 10 * time.Minute

// scaleDown is how long a node must have been of no use before it goes; never is for autoscalers that take none away.
func (c *clusterFacts) scaleDown() (after time.Duration, never bool) {
	after = defaultUnneeded
	for _, a := range c.autoscalers {
		if d, err := time.ParseDuration(a.flags["scale-down-unneeded-time"]); err == nil && d >= 0 {
			after = d
		}
		never = never || a.flags["scale-down-enabled"] == "false"
	}
	return after, never
}

// flagNotes say what became of settings that have no counterpart.
var flagNotes = []struct{ flag, note string }{
	{"expander", "the cheapest type that fits is taken; spec.weight puts pools in an order"},
	{"balance-similar-node-groups", "spread constraints of pods decide how zones are filled"},
	{"scale-down-utilization-threshold", "a node is removed if its pods fit elsewhere, or on something cheaper"},
	{"skip-nodes-with-local-storage", "pods with local storage are evicted, unless they have karpenter.sh/do-not-disrupt"},
	{"skip-nodes-with-system-pods", "pods of kube-system are evicted as their PodDisruptionBudgets allow"},
	{"max-nodes-total", "limits are those of each pool"},
	{"cores-total", "limits are those of each pool"},
	{"memory-total", "limits are those of each pool"},
}

// lost names the settings of Cluster Autoscaler that pools do not have.
func (c *clusterFacts) lost() []string {
	var out []string
	for _, a := range c.autoscalers {
		for _, n := range flagNotes {
			if value, ok := a.flags[n.flag]; ok {
				out = append(out, fmt.Sprintf("--%s=%s of Deployment %s: %s", n.flag, value, a.name, n.note))
			}
		}
	}
	return out
}
