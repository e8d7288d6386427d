package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
)

// removable are the kinds that can be deleted, by the words that kubectl takes for them.
var removable = map[string]string{
	"nodepool": "NodePool", "nodepools": "NodePool", "nodeoverlay": "NodeOverlay", "nodeoverlays": "NodeOverlay", "overlays": "NodeOverlay", "nodeclaim": "NodeClaim", "nodeclaims": "NodeClaim", "node": "Node", "nodes": "Node", "no": "Node",
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment", "statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"replicaset": "ReplicaSet", "replicasets": "ReplicaSet", "rs": "ReplicaSet", "daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
	"job": "Job", "jobs": "Job", "pod": "Pod", "pods": "Pod", "po": "Pod",
	"poddisruptionbudget": "PodDisruptionBudget", "poddisruptionbudgets": "PodDisruptionBudget", "pdb": "PodDisruptionBudget",
	"capacitybuffer": "CapacityBuffer", "capacitybuffers": "CapacityBuffer", "cb": "CapacityBuffer",
}

// identityOf reads KIND/NAME or KIND/NAMESPACE/NAME. The kind may be followed by its group, as in kubectl's output.
func (c *Change) identityOf(text string) (identity, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return identity{}, fmt.Errorf("%q names no object; write nodepool/general, node/NAME or deployment/NAMESPACE/NAME", text)
	}
	word, _, _ := strings.Cut(strings.ToLower(parts[0]), ".")
	kind, ok := removable[word]
	if !ok {
		kinds := slices.Compact(slices.Sorted(maps.Values(removable)))
		return identity{}, fmt.Errorf("%q: planning does not delete objects of kind %s; it can delete %s", text, parts[0], strings.Join(kinds, ", "))
	}
	id := identity{kind: kind, name: parts[len(parts)-1]}
	switch spaced := slices.Contains(namespaced, kind); {
	case spaced && len(parts) == 3:
		id.space = parts[1]
	case spaced:
		id.space = c.space()
	case len(parts) == 3:
		return identity{}, fmt.Errorf("%q: a %s is in no namespace; write %s/%s", text, kind, word, id.name)
	}
	return id, nil
}

// remove deletes an object.
func (c *Change) remove(text string) error {
	id, err := c.identityOf(text)
	if err != nil {
		return err
	}
	var found bool
	switch id.kind {
	case "NodePool":
		found = c.removePool(id)
	case "NodeOverlay":
		count := len(c.Objects.Overlays)
		c.Objects.Overlays = slices.DeleteFunc(c.Objects.Overlays, func(o *v1alpha1.NodeOverlay) bool { return o.Name == id.name })
		found = len(c.Objects.Overlays) < count
	case "NodeClaim":
		found = c.endClaims(func(n *v1.NodeClaim) bool { return n.Name == id.name })
	case "Node":
		found = c.endNode(id)
	case "PodDisruptionBudget":
		count := len(c.Objects.Budgets)
		c.Objects.Budgets = slices.DeleteFunc(c.Objects.Budgets, func(b *policyv1.PodDisruptionBudget) bool { return b.Name == id.name && spaceOf(b) == id.space })
		found = len(c.Objects.Budgets) < count
	case "CapacityBuffer":
		count := len(c.Objects.Buffers)
		c.Objects.Buffers = slices.DeleteFunc(slices.Clone(c.Objects.Buffers), func(b *bufferv1.CapacityBuffer) bool { return b.Name == id.name && spaceOf(b) == id.space })
		found = c.release(id) || len(c.Objects.Buffers) < count
	case "Pod":
		found, err = c.removePod(id)
	default:
		found, err = c.removeWorkload(id)
	}
	if err == nil && !found {
		err = fmt.Errorf("%s is to be deleted, and the cluster has none", id)
	}
	if err == nil {
		c.say("%s is deleted", id)
	}
	return err
}

// removePool deletes a pool, and with it its nodes.
func (c *Change) removePool(id identity) bool {
	count := len(c.Objects.Pools)
	c.Objects.Pools = slices.DeleteFunc(c.Objects.Pools, func(p *v1.NodePool) bool { return p.Name == id.name })
	c.endClaims(func(n *v1.NodeClaim) bool { return n.Labels[v1.NodePoolLabelKey] == id.name })
	return len(c.Objects.Pools) < count
}

// endClaims begins to delete claims: their nodes are drained.
func (c *Change) endClaims(which func(*v1.NodeClaim) bool) (any bool) {
	for i, claim := range c.Objects.Claims {
		if !which(claim) {
			continue
		}
		any = true
		if claim.DeletionTimestamp == nil {
			next := claim.DeepCopy()
			next.DeletionTimestamp = new(metav1.NewTime(c.Now))
			c.Objects.Claims[i] = next
		}
	}
	return any
}

// endNode begins to delete a node: it is drained if a claim made it, and is gone if not.
func (c *Change) endNode(id identity) bool {
	at := slices.IndexFunc(c.Objects.Nodes, func(n *corev1.Node) bool { return n.Name == id.name })
	if at < 0 {
		return false
	}
	node := c.Objects.Nodes[at].DeepCopy()
	node.DeletionTimestamp = new(metav1.NewTime(c.Now))
	c.Objects.Nodes[at] = node
	c.endClaims(func(n *v1.NodeClaim) bool { return n.Status.NodeName == id.name })
	return true
}

// removePod deletes a pod that nothing makes anew.
func (c *Change) removePod(id identity) (bool, error) {
	at := slices.IndexFunc(c.Objects.Pods, func(p *corev1.Pod) bool {
		return p.Name == id.name && cmp.Or(p.Namespace, metav1.NamespaceDefault) == id.space
	})
	if at < 0 {
		return false, nil
	}
	for _, o := range c.Objects.Pods[at].OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return false, fmt.Errorf("%s belongs to %s %s, which makes another one at once; delete that, or change it with -f", id, o.Kind, o.Name)
		}
	}
	c.touched = append(c.touched, podLabels{id.space, c.Objects.Pods[at].Labels})
	c.Objects.Pods = slices.Delete(c.Objects.Pods, at, at+1)
	return true, nil
}

// removeWorkload deletes what makes pods, with its pods. One without pods is not among the objects that are read: the cluster
// is asked about it, where there is one to ask.
func (c *Change) removeWorkload(id identity) (bool, error) {
	w := &workload{identity: id}
	count := len(c.Objects.Pods) + len(c.Objects.DaemonSets)
	for _, p := range c.Objects.Pods {
		if w.owns(p) {
			c.touched = append(c.touched, podLabels{w.space, p.Labels})
		}
	}
	c.Objects.Pods = slices.DeleteFunc(c.Objects.Pods, w.owns)
	c.Objects.DaemonSets = slices.DeleteFunc(c.Objects.DaemonSets, func(d *appsv1.DaemonSet) bool {
		return id.kind == "DaemonSet" && d.Name == id.name && spaceOf(d) == id.space
	})
	if len(c.Objects.Pods)+len(c.Objects.DaemonSets) < count {
		return true, nil
	}
	if c.Exists == nil {
		return false, fmt.Errorf("%s is to be deleted, and no pod of it was read", id)
	}
	group := "apps"
	if id.kind == "Job" {
		group = "batch"
	}
	return c.Exists(fmt.Sprintf("/apis/%s/v1/namespaces/%s/%ss/%s", group, url.PathEscape(id.space), strings.ToLower(id.kind), url.PathEscape(id.name)))
}
