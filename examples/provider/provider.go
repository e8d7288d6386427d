package main

import (
	"context"
	"errors"
	"io/fs"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
)

const (
	zone   = "rack-1"
	prefix = "rack:///" // of provider IDs
)

// sizes are what can be bought.
var sizes = []struct {
	name                 string
	cores, memory, price float64
}{{"large", 8, 32, 0.40}, {"small", 2, 8, 0.10}}

// Labels that a server carries from birth: what it is found by after a crash.
const (
	labelClaim, labelBatch, labelPool, labelClass = "claim", "batch", "pool", "class"
)

// Provider makes servers in a rack.
type Provider struct {
	Rack *Rack
	// Class returns the class of that name, or nil.
	Class func(name string) *RackNodeClass
	Now   func() time.Time
	// Fence returns an error if this process may have ceased to lead.
	Fence func() error

	mu    sync.Mutex
	types map[string]*known // by class
}

// known is what was worked out last for a class.
type known struct {
	class *RackNodeClass
	full  bool
	types *cloud.Types
}

var _ cloud.Provider = (*Provider)(nil)

// Name implements cloud.Provider.
func (p *Provider) Name() string { return "rack" }

// InstanceID implements cloud.Provider.
func (p *Provider) InstanceID(providerID string) (string, error) {
	id, ok := strings.CutPrefix(providerID, prefix)
	if !ok || id == "" {
		return "", errors.New("provider ID " + providerID + " is not of the form " + prefix + "SERVER")
	}
	return id, nil
}

// resources names the entries of every vector of resources.
var resources = []string{"cpu", "memory", "pods", "ephemeral-storage"}

// Types implements cloud.Catalogue: the same value for as long as nothing has changed.
func (p *Provider) Types(class string) (*cloud.Types, error) {
	found := p.Class(class)
	if found == nil {
		return nil, fail(cloud.NotReady, "list types", errors.New("there is no RackNodeClass "+class))
	}
	all, err := p.Rack.List()
	if err != nil {
		return nil, fail(cloud.Transient, "list types", err)
	}
	full := len(all) >= p.Rack.Room()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.types == nil {
		p.types = map[string]*known{}
	}
	last := p.types[class]
	if last != nil && last.class == found && last.full == full {
		return last.types, nil
	}
	types := &cloud.Types{Resources: resources, Version: 1}
	if last != nil {
		types.Version = last.types.Version + 1
	}
	for _, size := range sizes {
		room := cloud.Resources{int64(size.cores * 1000), int64(size.memory) << 30, 110, 100 << 30}
		types.List = append(types.List, &cloud.InstanceType{
			Name: size.name, Capacity: room, Allocatable: room,
			Labels:    cloud.NewLabels(map[string]string{corev1.LabelInstanceTypeStable: size.name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"}),
			Offerings: []cloud.Offering{{Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, Price: size.price, Available: !full}},
		})
	}
	p.types[class] = &known{found, full, types}
	return types, nil
}

// Launch implements cloud.Launcher. A server's name follows from its claim, so that a repeated launch cannot make a second one.
func (p *Provider) Launch(_ context.Context, batch cloud.Batch) []cloud.Result {
	results := make([]cloud.Result, len(batch.Claims))
	wrong := batch.Check()
	for i, claim := range batch.Claims {
		if wrong != nil {
			results[i].Err = fail(cloud.Invalid, "launch "+claim.Name, wrong)
			continue
		}
		results[i].Instance, results[i].Err = p.launch(batch, claim)
	}
	return results
}

func (p *Provider) launch(batch cloud.Batch, claim *karpv1.NodeClaim) (*cloud.Instance, error) {
	op, name := "launch "+claim.Name, "claim-"+string(claim.UID)
	if m, err := p.Rack.Find(name); err == nil {
		return p.instance(m), nil // an earlier call has made it
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(cloud.Transient, op, err)
	}
	class := p.Class(claim.Spec.NodeClassRef.Name)
	if class == nil {
		return nil, fail(cloud.NotReady, op, errors.New("there is no RackNodeClass "+claim.Spec.NodeClassRef.Name))
	}
	types := batch.Types
	if types == nil {
		var err error
		if types, err = p.Types(class.Name); err != nil {
			return nil, err
		}
	}
	rules := karpv1.CoreLabelRules()
	wish, err := kit.NewWish(claim, func(key string) (string, bool) {
		return rules.Normalize(key), rules.WellKnown.Has(rules.Normalize(key))
	}, types.Resources)
	if err != nil {
		return nil, fail(cloud.Invalid, op, err)
	}
	choice, err := kit.Choose(types.List, &wish, kit.Rules{})
	if err != nil {
		return nil, fail(cloud.NoCapacity, op, err)
	}
	if err := p.Fence(); err != nil {
		return nil, fail(cloud.Transient, op, err)
	}
	m, err := p.Rack.Start(Server{
		Name: name, Size: choice.Options[0].Type.Name, Image: class.Spec.Image, Started: p.Now(),
		Labels: map[string]string{labelClaim: claim.Name, labelBatch: batch.ID, labelPool: claim.Labels[karpv1.NodePoolLabelKey], labelClass: class.Name},
	})
	switch {
	case errors.Is(err, ErrFull):
		return nil, fail(cloud.NoCapacity, op, err)
	case err != nil:
		return nil, fail(cloud.Unknown, op, err) // it may have been made: the next call finds it
	}
	return p.instance(m), nil
}

// instance is a server in the controller's words.
func (p *Provider) instance(m Server) *cloud.Instance {
	in := &cloud.Instance{
		ID: m.Name, ProviderID: prefix + m.Name, State: cloud.Running, Launched: m.Started, Type: m.Size, Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, ImageID: m.Image,
		Claim: m.Labels[labelClaim], Batch: m.Labels[labelBatch], Pool: m.Labels[labelPool], Class: m.Labels[labelClass],
		Labels: map[string]string{corev1.LabelInstanceTypeStable: m.Size, corev1.LabelTopologyZone: zone, karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand},
	}
	for _, size := range sizes {
		if size.name == m.Size {
			in.Capacity = corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(int64(size.cores), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(size.memory)<<30, resource.BinarySI),
				corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
			}
			in.Allocatable = in.Capacity
		}
	}
	return in
}

// Get implements cloud.Fleet.
func (p *Provider) Get(_ context.Context, id string) (*cloud.Instance, error) {
	m, err := p.Rack.Find(id)
	if err != nil {
		return nil, absent("get server "+id, err)
	}
	return p.instance(m), nil
}

// List implements cloud.Fleet.
func (p *Provider) List(context.Context) ([]*cloud.Instance, error) {
	all, err := p.Rack.List()
	if err != nil {
		return nil, fail(cloud.Transient, "list servers", err)
	}
	var out []*cloud.Instance
	for _, m := range all {
		out = append(out, p.instance(m))
	}
	return out, nil
}

// Delete implements cloud.Fleet.
func (p *Provider) Delete(_ context.Context, id string) error {
	if err := p.Fence(); err != nil {
		return fail(cloud.Transient, "delete server "+id, err)
	}
	if err := p.Rack.Stop(id); err != nil {
		return absent("delete server "+id, err)
	}
	return nil
}

// Tag implements cloud.Fleet: servers have no tags that can be changed.
func (p *Provider) Tag(context.Context, string, map[string]string) error {
	return errors.ErrUnsupported
}

// Reboot implements cloud.Rebooter: a rack cannot.
func (p *Provider) Reboot(context.Context, *karpv1.NodeClaim, string) error {
	return &cloud.NodeRebootNotImplementedError{Provider: p.Name()}
}

// Drifted implements cloud.Judge.
func (p *Provider) Drifted(_ context.Context, claim *karpv1.NodeClaim) (string, error) {
	class := p.Class(claim.Spec.NodeClassRef.Name)
	if class != nil && claim.Status.ImageID != "" && claim.Status.ImageID != class.Spec.Image {
		return "ImageDrift", nil
	}
	return "", nil
}

// RepairPolicies implements cloud.Judge.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{Condition: corev1.NodeReady, Status: corev1.ConditionFalse, Tolerated: 30 * time.Minute, Action: cloud.ReplaceNode}}
}

// fail classifies an error: its class decides what the controller does next.
func fail(class cloud.Class, op string, err error) error {
	return &cloud.Error{Class: class, Reason: "LaunchFailed", Op: op, Err: err}
}

// absent is NotFound for a server that is not there. This cloud shows everything at once, so that not being shown is proof.
func absent(op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &cloud.Error{Class: cloud.NotFound, Reason: cloud.ReasonTerminated, Op: op, Err: err}
	}
	return fail(cloud.Transient, op, err)
}
