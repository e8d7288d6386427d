package drain_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"karpenter/internal/cloud"
)

// fleet is a cloud that holds machines in memory. A machine that is told to end is gone the second time it is asked for, unless
// the test says otherwise.
type fleet struct {
	mu       sync.Mutex
	machines map[string]*cloud.Instance
	deletes  map[string]int
	gets     int
	lists    int
	// hidden machines exist and are not found by id; slow machines stay in shutting-down until the test ends them.
	hidden, slow map[string]bool
	// explicit says that the cloud shows machines that have ended, as such.
	explicit bool
	fail     error
}

func notFound(op string) error {
	return &cloud.Error{Class: cloud.NotFound, Op: op, Reason: "InstanceNotFound"}
}

func (f *fleet) add(in *cloud.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines[in.ID] = in
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// vanish takes a machine away.
func (f *fleet) vanish(id string) { f.set(func() { delete(f.machines, id) }) }

func (f *fleet) deleted(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deletes[id]
}

func (f *fleet) has(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machines[id] != nil
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
	if f.machines[id] == nil || f.hidden[id] {
		return nil, notFound("get " + id)
	}
	return f.machines[id], nil
}

func (f *fleet) List(context.Context) ([]*cloud.Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.fail != nil {
		return nil, f.fail
	}
	var out []*cloud.Instance
	for _, id := range slices.Sorted(maps.Keys(f.machines)) {
		out = append(out, f.machines[id])
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
	in := f.machines[id]
	switch {
	case in == nil || f.hidden[id]:
		return notFound("delete " + id)
	case in.State == cloud.ShuttingDown && !f.slow[id]:
		delete(f.machines, id)
		if f.explicit {
			return &cloud.Error{Class: cloud.NotFound, Op: "delete " + id, Reason: "InstanceTerminated"}
		}
		return notFound("delete " + id)
	}
	ending := *in
	ending.State = cloud.ShuttingDown
	f.machines[id] = &ending
	return nil
}

func (f *fleet) Tag(context.Context, string, map[string]string) error {
	return errors.New("nothing here tags")
}
