package drain_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"karpenter/cloud"
)

// fleet is a cloud that holds instances in memory. An instance that is told to end is gone the second time it is asked for, unless
// the test says otherwise.
type fleet struct {
	mu        sync.Mutex
	instances map[string]*cloud.Instance
	deletes   map[string]int
	gets      int
	lists     int
	// hidden instances exist and are not found by id; slow instances stay in shutting-down until the test ends them.
	hidden, slow map[string]bool
	// explicit says that the cloud shows instances that have ended, as such.
	explicit bool
	fail     error
}

func notFound(op string) error {
	return &cloud.Error{Class: cloud.NotFound, Op: op, Reason: "InstanceNotFound"}
}

func (f *fleet) add(in *cloud.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances[in.ID] = in
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// vanish takes an instance away.
func (f *fleet) vanish(id string) { f.set(func() { delete(f.instances, id) }) }

func (f *fleet) deleted(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deletes[id]
}

func (f *fleet) has(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.instances[id] != nil
}

func (f *fleet) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

func (f *fleet) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets
}

func (f *fleet) Get(_ context.Context, id string) (*cloud.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets++
	if f.fail != nil {
		return nil, f.fail
	}
	if f.instances[id] == nil || f.hidden[id] {
		return nil, notFound("get " + id)
	}
	return f.instances[id], nil
}

func (f *fleet) List(context.Context) ([]*cloud.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.fail != nil {
		return nil, f.fail
	}
	var out []*cloud.Instance
	for _, id := range slices.Sorted(maps.Keys(f.instances)) {
		out = append(out, f.instances[id])
	}
	return out, nil
}

func (f *fleet) Delete(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deletes[id]++
	if f.fail != nil {
		return f.fail
	}
	in := f.instances[id]
	switch {
	case in == nil || f.hidden[id]:
		return notFound("delete " + id)
	case in.State == cloud.ShuttingDown && !f.slow[id]:
		delete(f.instances, id)
		if f.explicit {
			return &cloud.Error{Class: cloud.NotFound, Op: "delete " + id, Reason: "InstanceTerminated"}
		}
		return notFound("delete " + id)
	}
	ending := *in
	ending.State = cloud.ShuttingDown
	f.instances[id] = &ending
	return nil
}

func (f *fleet) Tag(context.Context, string, map[string]string) error {
	return errors.New("nothing here tags")
}
