package state

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/world"
)

// Catalogs is what each node class could launch when the view was made, in text form: what Record.Classes takes. Classes that
// share a list share the catalogue.
func (v *View) Catalogs() map[string]*Catalog {
	out := map[string]*Catalog{}
	w := &catalogWriter{names: v.sources.resources}
	var done []string
	for _, class := range slices.Sorted(maps.Keys(v.sources.types)) {
		t := v.sources.types[class]
		for _, other := range done {
			if o := v.sources.types[other]; len(t.list) > 0 && t.err == nil && o.err == nil && sameSlice(o.list, t.list) {
				out[class] = out[other]
			}
		}
		if out[class] == nil {
			out[class] = w.catalog(t)
			done = append(done, class)
		}
	}
	return out
}

// catalogWriter writes types in text form.
type catalogWriter struct{ names []string }

func (w *catalogWriter) catalog(t *typeList) *Catalog {
	c := &Catalog{InstanceTypes: []CatalogType{}, Complete: true}
	if t.err != nil {
		c.Error = t.err.Error()
	}
	for _, x := range t.list {
		item := CatalogType{Name: x.Name, Labels: asMap(x.Labels), Allocatable: w.amounts(x.Allocatable), Offerings: []CatalogOffering{}}
		if !sameAmounts(x.Capacity, x.Allocatable) {
			item.Capacity = w.amounts(x.Capacity)
		}
		for i := range x.Offerings {
			item.Offerings = append(item.Offerings, w.offering(&x.Offerings[i]))
		}
		c.InstanceTypes = append(c.InstanceTypes, item)
	}
	return c
}

func (w *catalogWriter) offering(o *world.Offering) CatalogOffering {
	out := CatalogOffering{
		Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Unavailable: !o.Available, Labels: asMap(o.Labels),
		Reservation: o.Reservation, Remaining: o.Remaining,
	}
	if o.Allocatable != nil {
		out.Allocatable = w.amounts(o.Allocatable)
	}
	if o.Capacity != nil {
		out.Capacity = w.amounts(o.Capacity)
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
	for name, q := range resourceList(w.names, r) {
		out[string(name)] = q.String()
	}
	return out
}

// resourceList writes a vector in the form of the API.
func resourceList(names []string, r world.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, q := range r {
		if q != 0 && i < len(names) {
			out[corev1.ResourceName(names[i])] = *quantityOf(names[i], q)
		}
	}
	return out
}
