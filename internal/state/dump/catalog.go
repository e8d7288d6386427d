package dump

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// Catalog lists instance types with what they offer where and at which price.
type Catalog struct {
	InstanceTypes []CatalogType `json:"instanceTypes"`
	// Complete says that offerings have all their labels. In catalogues written by hand the region is taken from the zone's name.
	Complete bool `json:"complete,omitempty"`
	// Error is what went wrong when the list was last asked for: nothing new is launched from it, it only tells prices.
	Error string `json:"error,omitempty"`
}

// CatalogType is an instance type in text form.
type CatalogType struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Allocatable map[string]string `json:"allocatable"`
	Capacity    map[string]string `json:"capacity,omitempty"`
	Offerings   []CatalogOffering `json:"offerings"`
}

// CatalogOffering is one way to buy the type.
type CatalogOffering struct {
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	Price        float64           `json:"price"`
	Estimated    bool              `json:"estimated,omitempty"`
	Unavailable  bool              `json:"unavailable,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Reservation  string            `json:"reservation,omitempty"`
	Remaining    int               `json:"remaining,omitempty"`
	Allocatable  map[string]string `json:"allocatable,omitempty"`
	Capacity     map[string]string `json:"capacity,omitempty"`
}

// ReadCatalog reads a catalogue from JSON.
func ReadCatalog(data []byte) (*Catalog, error) {
	c := &Catalog{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	if len(c.InstanceTypes) == 0 {
		return nil, fmt.Errorf("read catalogue: no instanceTypes in it")
	}
	return c, nil
}

// Types converts the catalogue; a type or offering that makes no sense is set aside and named.
func (c *Catalog) Types() (resources []string, types []*world.InstanceType, problems []Problem) {
	if c == nil {
		return nil, nil, nil
	}
	b := &catalogReader{names: world.NewNames(), complete: c.Complete}
	seen := map[string]bool{}
	var out []*world.InstanceType
	for i := range c.InstanceTypes {
		t := &c.InstanceTypes[i]
		if t.Name == "" || seen[t.Name] {
			b.report(NewProblem("InstanceType", t.Name, "has no name or one that was used before; it is left out"))
			continue
		}
		seen[t.Name] = true
		w, err := b.instanceType(t)
		if err != nil {
			b.report(NewProblem("InstanceType", t.Name, "%v", err))
			continue
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(x, y *world.InstanceType) int { return strings.Compare(x.Name, y.Name) })
	return b.names.List(), out, b.problems
}

// catalogReader collects what is wrong with a catalogue while it is read.
type catalogReader struct {
	names    *world.Names
	problems []Problem
	complete bool
}

func (b *catalogReader) report(p Problem) { b.problems = append(b.problems, p) }

func (b *catalogReader) instanceType(t *CatalogType) (*world.InstanceType, error) {
	w := &world.InstanceType{Name: t.Name, Labels: world.NewLabels(t.Labels)}
	var err error
	if w.Allocatable, err = b.quantities(t.Allocatable); err != nil {
		return nil, fmt.Errorf("allocatable: %w", err)
	}
	w.Capacity = w.Allocatable
	if t.Capacity != nil {
		if w.Capacity, err = b.quantities(t.Capacity); err != nil {
			return nil, fmt.Errorf("capacity: %w", err)
		}
	}
	for k := range t.Offerings {
		o := &t.Offerings[k]
		if math.IsNaN(o.Price) || math.IsInf(o.Price, 0) || o.Price < 0 {
			b.report(NewProblem("InstanceType", t.Name, "offering %s %s has price %v; give a number of dollars an hour", o.Zone, o.CapacityType, o.Price))
			continue
		}
		x := world.Offering{
			Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Estimated: o.Estimated, Available: !o.Unavailable, Reservation: o.Reservation, Remaining: o.Remaining,
			Labels: world.NewLabels(o.Labels),
		}
		if region, ok := regionOf(o.Zone); ok && !b.complete && t.Labels[world.LabelRegion] == "" {
			x.Labels = x.Labels.With(world.LabelRegion, region)
		}
		if err := b.override(w, &x, o); err != nil {
			return nil, err
		}
		w.Offerings = append(w.Offerings, x)
	}
	return w, nil
}

// override gives an offering room of its own: what it lists replaces what its type has, resource by resource (N5). What of a capacity
// that it lists pods may use is less by as much as on the type, unless it says that too.
func (b *catalogReader) override(t *world.InstanceType, x *world.Offering, o *CatalogOffering) error {
	if o.Allocatable == nil && o.Capacity == nil {
		return nil
	}
	allocatable, err := b.quantities(o.Allocatable)
	if err != nil {
		return fmt.Errorf("offering allocatable: %w", err)
	}
	capacity, err := b.quantities(o.Capacity)
	if err != nil {
		return fmt.Errorf("offering capacity: %w", err)
	}
	x.Allocatable = slices.Clone(t.Allocatable)
	if o.Capacity != nil {
		x.Capacity = slices.Clone(t.Capacity)
	}
	for name := range o.Capacity {
		i := b.names.Index(name)
		x.Capacity = x.Capacity.Set(i, capacity.Get(i))
		x.Allocatable = x.Allocatable.Set(i, max(capacity.Get(i)-(t.Capacity.Get(i)-t.Allocatable.Get(i)), 0))
	}
	for name := range o.Allocatable {
		i := b.names.Index(name)
		x.Allocatable = x.Allocatable.Set(i, allocatable.Get(i))
	}
	return nil
}

// regionOf takes the letter off a zone such as us-east-1a.
func regionOf(zone string) (string, bool) {
	n := len(zone)
	if n < 2 || zone[n-1] < 'a' || zone[n-1] > 'z' || zone[n-2] < '0' || zone[n-2] > '9' {
		return "", false
	}
	return zone[:n-1], true
}

func (b *catalogReader) quantities(m map[string]string) (world.Resources, error) {
	list := corev1.ResourceList{}
	for _, l := range world.NewLabels(m) {
		k, v := l.Key, l.Value
		q, err := resource.ParseQuantity(v)
		if err != nil {
			return nil, fmt.Errorf("%s %q is no quantity; write 2, 500m or 4Gi", k, v)
		}
		list[corev1.ResourceName(k)] = q
	}
	out, err := toworld.Resources(b.names, list)
	for name := range list {
		if i := b.names.Index(string(name)); err == nil && out.Get(i) == 0 && world.UnlimitedWhenAbsent(string(name)) {
			out = out.Set(i, world.NoAttachments) // 0 is a limit; without one the resource is left out
		}
	}
	return out, err
}

// NewCatalog writes types in text form; resources names the entries of their vectors.
func NewCatalog(resources []string, list []*world.InstanceType) *Catalog {
	return (&catalogWriter{names: resources}).catalog(list)
}

// catalogWriter writes types in text form.
type catalogWriter struct{ names []string }

func (w *catalogWriter) catalog(list []*world.InstanceType) *Catalog {
	c := &Catalog{InstanceTypes: []CatalogType{}, Complete: true}
	for _, x := range list {
		item := CatalogType{Name: x.Name, Labels: asMap(x.Labels), Allocatable: w.amounts(x.Allocatable), Offerings: []CatalogOffering{}}
		if !sameAmounts(x.Capacity, x.Allocatable) {
			item.Capacity = w.amounts(x.Capacity)
		}
		for i := range x.Offerings {
			item.Offerings = append(item.Offerings, w.offering(x, &x.Offerings[i]))
		}
		c.InstanceTypes = append(c.InstanceTypes, item)
	}
	return c
}

func (w *catalogWriter) offering(t *world.InstanceType, o *world.Offering) CatalogOffering {
	out := CatalogOffering{
		Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Estimated: o.Estimated, Unavailable: !o.Available, Labels: asMap(o.Labels),
		Reservation: o.Reservation, Remaining: o.Remaining,
	}
	if o.Allocatable != nil {
		out.Allocatable = w.others(o.Allocatable, t.Allocatable)
	}
	if o.Capacity != nil {
		out.Capacity = w.others(o.Capacity, t.Capacity)
		if o.Allocatable == nil {
			out.Allocatable = w.amounts(t.Allocatable)
		}
	}
	return out
}

// others writes what an offering has otherwise than its type.
func (w *catalogWriter) others(r, of world.Resources) map[string]string {
	out := map[string]string{}
	for i, name := range w.names {
		if r.Get(i) != of.Get(i) {
			out[name] = amount(name, r.Get(i))
		}
	}
	return out
}

func asMap(l world.Labels) map[string]string {
	if len(l) == 0 {
		return nil
	}
	out := make(map[string]string, len(l))
	for _, x := range l {
		out[x.Key] = x.Value
	}
	return out
}

func sameAmounts(a, b world.Resources) bool {
	for i := range max(len(a), len(b)) {
		if a.Get(i) != b.Get(i) {
			return false
		}
	}
	return true
}

func (w *catalogWriter) amounts(r world.Resources) map[string]string {
	out := map[string]string{}
	for i, v := range r {
		if v != 0 && i < len(w.names) {
			out[w.names[i]] = amount(w.names[i], v)
		}
	}
	return out
}

func amount(name string, v int64) string { return toworld.Quantity(name, max(v, 0)).String() }
