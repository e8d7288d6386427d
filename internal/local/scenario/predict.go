package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

const (
	// foreseePatience is how much longer than plan says a cluster may take to come to rest: the computer may have other things to do.
	foreseePatience = 2 * time.Minute
	// restPatience is how long a cluster may take to come to rest before a change: nodes may have to go one by one.
	restPatience = 5 * time.Minute
	// foreseeMost bounds what is waited for at all.
	foreseeMost = 10 * time.Minute
	// foreseeEvery is how often a cluster that is not there yet is looked at.
	foreseeEvery = 300 * time.Millisecond
	// grain is by how many dollars an hour the price of a node may differ: prices are told in millionths.
	grain = 1e-5
)

// prospect is what plan -o json says a change comes to, as far as it is compared with what happens.
type prospect struct {
	From    string        `json:"from"`
	Now     total         `json:"now"`
	Without total         `json:"without"`
	Nodes   []plannedNode `json:"nodes"`
	Pending []struct {
		Pods []string `json:"pods"`
	} `json:"pending"`
	Time struct {
		Seconds  float64 `json:"seconds"`
		Restless bool    `json:"restless"`
	} `json:"time"`
}

type total struct {
	Nodes int     `json:"nodes"`
	Price float64 `json:"pricePerHour"`
}

// plannedNode is a node in the words of plan.
type plannedNode struct {
	Pool         string  `json:"pool"`
	Type         string  `json:"instanceType"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"pricePerHour"`
}

// outlook is a fleet as it is compared.
type outlook struct {
	nodes   []string // what each is, in order
	price   float64
	pending int
}

func newOutlook(planned []plannedNode, pending int) outlook {
	o := outlook{pending: pending}
	for _, m := range planned {
		if m.Pool != "" { // others are not Karpenter's
			o.nodes = append(o.nodes, strings.Join([]string{m.Pool, m.Type, m.CapacityType, m.Zone}, " "))
			o.price += m.Price
		}
	}
	slices.Sort(o.nodes)
	return o
}

// same says whether two fleets are of the same nodes at the same cost, and leave as many pods unschedulable.
func (o outlook) same(as outlook) bool {
	return slices.Equal(o.nodes, as.nodes) && math.Abs(o.price-as.price) <= grain*float64(len(o.nodes)) && o.pending == as.pending
}

// String is for people: 3 nodes for $0.1234/h (2 × default c6a.large spot us-west-2a, …).
func (o outlook) String() string {
	var kinds []string
	for i := 0; i < len(o.nodes); {
		n := i
		for n < len(o.nodes) && o.nodes[n] == o.nodes[i] {
			n++
		}
		kinds = append(kinds, fmt.Sprintf("%d × %s", n-i, o.nodes[i]))
		i = n
	}
	text := fmt.Sprintf("%s for $%.4f/h", plural(len(o.nodes), "node"), o.price)
	if len(kinds) > 0 {
		text += " (" + strings.Join(kinds, ", ") + ")"
	}
	if o.pending > 0 {
		text += ", " + plural(o.pending, "unschedulable pod")
	}
	return text
}

// plural is a number of things: 1 node, 2 nodes.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// prediction holds what plan says of each change against what comes of it. Steps that change objects one after the other are one
// change: plan is asked before the first of them, and the cluster must have come to what it said before the next change.
type prediction struct {
	c *Cluster
	// excuse says why nothing is foreseen for now.
	excuse string
	// within says that a change is being made.
	within bool
	// want is what a change must come to, and took how long plan says that takes.
	want *outlook
	took time.Duration
	// right counts changes that came to what plan said, excuses how often it was not asked.
	right, excuses int
}

// before is called before each step, with those that are still to be done.
func (f *prediction) before(ctx context.Context, rest []step) error {
	next := &rest[0]
	switch {
	case next.predict == "off":
		f.within = false
		if err := f.settle(ctx); err != nil {
			return err
		}
		f.excuse = next.excuse
		f.excuses++
	case next.predict == "on":
		f.within, f.excuse = false, ""
	case f.excuse != "":
	case next.surprise:
		return errors.New("plan cannot foresee what comes of it; say why with: predict off REASON, and end that with: predict on")
	case next.change == nil:
		f.within = false
	case !f.within:
		f.within = true
		if err := f.settle(ctx); err != nil {
			return err
		}
		together := 1
		for together < len(rest) && rest[together].change != nil && !rest[together].timed {
			together++
		}
		return f.predict(ctx, rest[:together])
	}
	return nil
}

// predict waits until the cluster is at rest, and asks plan what the steps come to.
func (f *prediction) predict(ctx context.Context, steps []step) error {
	return f.until(ctx, restPatience, func() (string, error) {
		if _, unrest, err := f.observation(ctx); unrest != "" || err != nil {
			return unrest, err
		}
		all := &change{}
		for i := range steps {
			if err := steps[i].change(ctx, f.c, all); err != nil {
				return "", err
			}
		}
		p, err := f.ask(ctx, all)
		switch {
		case err != nil:
			return err.Error(), nil
		case p.Now.Nodes != p.Without.Nodes || math.Abs(p.Now.Price-p.Without.Price) > grain:
			return fmt.Sprintf("the cluster is not at rest: plan says that %d nodes for $%.4f/h become %d for $%.4f/h", p.Now.Nodes, p.Now.Price, p.Without.Nodes, p.Without.Price), nil
		case p.Time.Restless:
			return "", errors.New("plan finds no end to what comes of it")
		}
		want := p.outlook()
		f.want, f.took = &want, time.Duration(p.Time.Seconds*float64(time.Second))
		f.c.Tell("  plan says: %s", want)
		return "", nil
	})
}

func (p *prospect) outlook() outlook {
	pending := 0
	for _, group := range p.Pending {
		pending += len(group.Pods)
	}
	return newOutlook(p.Nodes, pending)
}

// settle waits until the last change has come to what plan said, and to stay: asked again, plan says the same.
func (f *prediction) settle(ctx context.Context) error {
	if f.want == nil {
		return nil
	}
	if f.took > foreseeMost {
		return fmt.Errorf("plan says that it takes %v to come to %s; a scenario does not wait for that", f.took, f.want)
	}
	began := time.Now()
	err := f.until(ctx, f.took+foreseePatience, func() (string, error) {
		is, unrest, err := f.observation(ctx)
		switch {
		case err != nil || unrest != "":
			return unrest, err
		case !f.want.same(is):
			return fmt.Sprintf("plan said %s; it is %s", f.want, is), nil
		}
		p, err := f.ask(ctx, &change{})
		if err != nil {
			return err.Error(), nil
		}
		if then := p.outlook(); !f.want.same(then) {
			return fmt.Sprintf("plan said %s; so it is, but now plan says that it becomes %s", f.want, then), nil
		}
		return "", nil
	})
	if err == nil {
		f.c.Tell("  as plan said after %.1f s more: %s", time.Since(began).Seconds(), f.want)
		f.right++
	}
	f.want = nil
	return err
}

// until does something until it says that nothing is wrong any more.
func (f *prediction) until(ctx context.Context, patience time.Duration, do func() (wrong string, err error)) error {
	for began := time.Now(); ; {
		wrong, err := do()
		if err != nil || wrong == "" {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("after %v: %s", patience, wrong)
		}
		if err := pause(ctx, foreseeEvery); err != nil {
			return err
		}
	}
}

// ask asks plan.
func (f *prediction) ask(ctx context.Context, about *change) (*prospect, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, o := range about.objects {
		list.Items = append(list.Items, *o)
	}
	in, err := list.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("writing manifests: %w", err)
	}
	args := []string{"plan", "-f", "-", "-o", "json", "--kubeconfig", f.c.Kubeconfig}
	for _, name := range about.deleted {
		args = append(args, "--delete", name)
	}
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(ctx, f.c.Program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("plan: %w: %s", err, strings.TrimSpace(messages.String()))
	}
	p := &prospect{}
	if err := json.Unmarshal(out.Bytes(), p); err != nil {
		return nil, fmt.Errorf("reading what plan says: %w", err)
	}
	if strings.Contains(p.From, "no controller answers") {
		return nil, fmt.Errorf("plan did not ask the controller: %s", p.From)
	}
	return p, nil
}

// observation is the fleet as the cluster and AWS have it, or what is still going on.
func (f *prediction) observation(ctx context.Context) (is outlook, unrest string, err error) {
	s, err := f.c.look(ctx)
	if err != nil {
		return is, "", err
	}
	if unrest = s.unrest(); unrest != "" {
		return is, unrest, nil
	}
	if unrest, err = f.c.unjudged(ctx); unrest != "" || err != nil {
		return is, unrest, err
	}
	instances, err := f.c.AWS.Instances(f.c.Region)
	if err != nil {
		return is, "", fmt.Errorf("listing instances: %w", err)
	}
	costs := map[string]float64{}
	for i := range instances {
		costs[instances[i].ID] = instances[i].Price
	}
	var planned []plannedNode
	for _, n := range s.nodes {
		price, ok := costs[n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]]
		if !ok {
			return is, fmt.Sprintf("node %s has no instance", n.Name), nil
		}
		planned = append(planned, plannedNode{
			Pool: n.Labels[karpv1.NodePoolLabelKey], Type: n.Labels[corev1.LabelInstanceTypeStable], Zone: n.Labels[corev1.LabelTopologyZone],
			CapacityType: n.Labels[karpv1.CapacityTypeLabelKey], Price: price,
		})
	}
	return newOutlook(planned, int(gauges["pods-pending"](s))), "", nil
}

// unrest says what is going on in the cluster, or nothing.
func (s *observation) unrest() string {
	if !s.settled {
		return "a Deployment or StatefulSet does not have its pods"
	}
	for _, p := range s.pods {
		if p.DeletionTimestamp != nil || p.Spec.NodeName != "" && p.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("pod %s starts or stops", p.Name)
		}
	}
	for _, n := range s.nodes {
		if n.DeletionTimestamp != nil || !ready(n) || n.Labels[karpv1.NodeInitializedLabelKey] != "true" {
			return fmt.Sprintf("node %s starts or is being deleted", n.Name)
		}
	}
	for i := range s.claims {
		if s.claims[i].DeletionTimestamp != nil {
			return fmt.Sprintf("claim %s is being deleted", s.claims[i].Name)
		}
	}
	if len(s.claims) != len(s.nodes) || s.instances != len(s.nodes) {
		return fmt.Sprintf("there are %d claims, %d instances and %d nodes", len(s.claims), s.instances, len(s.nodes))
	}
	return ""
}

// unjudged names a pool or class of which the controller has not said yet whether it can be used.
func (c *Cluster) unjudged(ctx context.Context) (string, error) {
	var pools karpv1.NodePoolList
	var classes awsv1.EC2NodeClassList
	if err := errors.Join(c.Client.List(ctx, &pools), c.Client.List(ctx, &classes)); err != nil {
		return "", fmt.Errorf("looking at pools and classes: %w", err)
	}
	judged := func(r *karpv1.Condition, generation int64) bool {
		return r != nil && r.Status != metav1.ConditionUnknown && r.ObservedGeneration >= generation
	}
	for i := range classes.Items {
		if n := &classes.Items[i]; !judged(n.StatusConditions(true).Get(karpv1.ConditionReady), n.Generation) {
			return fmt.Sprintf("EC2NodeClass %s is looked at", n.Name), nil
		}
	}
	for i := range pools.Items {
		if p := &pools.Items[i]; !judged(p.StatusConditions().Get(karpv1.ConditionReady), p.Generation) {
			return fmt.Sprintf("NodePool %s is looked at", p.Name), nil
		}
	}
	return "", nil
}

// parsePredict reads when not to compare what plan says with what happens, and why.
func parsePredict(l scriptLine) (action, error) {
	switch {
	case len(l.args) == 1 && l.args[0] == "on", len(l.args) > 1 && l.args[0] == "off":
		return func(context.Context, *Cluster) (string, error) { return "", nil }, nil
	case len(l.args) == 1 && l.args[0] == "off":
		return nil, errors.New("say why, such as: predict off nobody knows which instances AWS takes back")
	}
	return nil, errors.New("it takes off and a reason, or on")
}
