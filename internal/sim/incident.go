package sim

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/sim/kube"
)

// effect is something that the controller does to the world, just before or after it happens.
type effect struct {
	// name is as patch/Node, patch/NodeClaim/status or aws/CreateFleet.
	name  string
	after bool
	// number counts effects; before and after are of the same one.
	number int
	// failed says that it has not happened.
	failed bool
	about
}

// about is what an effect is about.
type about struct{ claims, nodes []string }

// incident is something that happens at an effect of the controller: at the worst moment instead of at a time.
type incident struct {
	name        string
	after, each bool
	words       []string
	do          func(*World) error
}

// writing is the effect of a request to the API server. Nothing else happens between before and after.
func (w *World) writing(op *kube.Op) effect {
	name := op.Verb + "/" + op.Kind.Kind
	if op.Subresource != "" {
		name += "/" + op.Subresource
	}
	e := effect{name: name, after: op.Done, number: w.effects, failed: op.Err != nil}
	if len(w.incidents) == 0 {
		return e
	}
	var claim *karpv1.NodeClaim
	var node *corev1.Node
	switch op.Kind.Kind {
	case "NodeClaim":
		if claim, _ = w.server.Look(&karpv1.NodeClaim{}, op.Key).(*karpv1.NodeClaim); claim != nil {
			node = w.nodeOf(instanceOf(claim))
		}
	case "Node":
		node, _ = w.server.Look(&corev1.Node{}, op.Key).(*corev1.Node)
	case "Pod":
		if pod, _ := w.server.Look(&corev1.Pod{}, op.Key).(*corev1.Pod); pod != nil {
			node, _ = w.server.Look(&corev1.Node{}, types.NamespacedName{Name: pod.Spec.NodeName}).(*corev1.Node)
		}
	}
	if claim == nil && node != nil {
		claim = w.claimOf(node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:])
	}
	e.add(claim, node)
	return e
}

// calling is the effect of a call to AWS. A launch is about the claims that have no instance on record.
func (w *World) calling(r *http.Request, body []byte, asked *asked) effect {
	action := r.Header.Get("X-Amz-Target")
	if action = action[strings.LastIndexByte(action, '.')+1:]; action == "" {
		action, _, _ = strings.Cut(strings.TrimPrefix(string(body[:min(len(body), 100)]), "Action="), "&")
	}
	e := effect{name: "aws/" + action}
	if bytes.Contains(body, []byte("DryRun=true")) {
		e.name += "/dry-run"
	}
	if asked == nil || len(w.incidents) == 0 {
		return e
	}
	if asked.action == "CreateFleet" {
		w.claims(func(c *karpv1.NodeClaim) {
			if c.Status.ProviderID == "" && c.DeletionTimestamp == nil && c.Name != poisonName {
				e.claims = append(e.claims, c.Name)
			}
		})
	}
	for _, id := range asked.ids {
		e.add(w.claimOf(id), w.nodeOf(id))
	}
	return e
}

func (p *about) add(claim *karpv1.NodeClaim, node *corev1.Node) {
	if claim != nil {
		p.claims = append(p.claims, claim.Name)
	}
	if node != nil {
		p.nodes = append(p.nodes, node.Name)
	}
}

// happen does what waits for an effect.
func (w *World) happen(e effect) {
	for _, s := range slices.Clone(w.incidents) { // what these do may add more, for later effects
		if s.after != e.after || e.failed {
			continue
		}
		if is, _ := path.Match(s.name, e.name); !is {
			continue
		}
		if !s.each {
			w.incidents = slices.DeleteFunc(w.incidents, func(x *incident) bool { return x == s })
		}
		w.note("at %s of %v %v: %s", e.name, e.claims, e.nodes, strings.Join(s.words, " "))
		w.here = e.about
		if err := s.do(w); err != nil && w.fatal == nil {
			w.fatal = err
		}
		w.here = about{}
	}
}

func readWhen(args []string) (func(*World) error, error) {
	each := len(args) > 0 && args[0] == "each"
	if each {
		args = args[1:]
	}
	if err := several(args, 3); err != nil {
		return nil, err
	}
	if args[0] != "before" && args[0] != "after" {
		return nil, fmt.Errorf("%q is neither before nor after", args[0])
	}
	if _, err := path.Match(args[1], ""); err != nil || !strings.Contains(args[1], "/") {
		return nil, fmt.Errorf("%q is no effect such as patch/Node, patch/NodeClaim/status or aws/CreateFleet", args[1])
	}
	then := Step{Words: args[2:]}
	if err := then.read(); err != nil {
		return nil, err
	}
	return func(w *World) error {
		w.incidents = append(w.incidents, &incident{args[1], args[0] == "after", each, args[2:], then.do})
		return nil
	}, nil
}

// among are those that an incident is about, or all if it is about none of them.
func among(all, here []string) []string {
	var both []string
	for _, name := range all {
		if slices.Contains(here, name) {
			both = append(both, name)
		}
	}
	if len(both) > 0 {
		return both
	}
	return all
}

// bind has kube-scheduler send a pod to a node of the cluster, at an incident although the node may have been tainted a moment ago.
func (w *World) bind() error {
	var names []string
	w.server.Each(&corev1.Node{}, func(o client.Object) {
		node := o.(*corev1.Node)
		open := node.DeletionTimestamp == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == karpv1.DisruptedTaintKey || t.Key == karpv1.UnregisteredTaintKey
		})
		if ourNode(node) && (open || slices.Contains(w.here.nodes, node.Name)) {
			names = append(names, o.GetName())
		}
	})
	name := w.one(among(names, w.here.nodes))
	if name == "" {
		return nil
	}
	w.bound++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("late-", w.bound)}, Spec: corev1.PodSpec{
		NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}}}},
	}}
	return w.scheduler.Create(context.Background(), pod)
}
