package operator

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

const (
	// auditEvery is how often the mirror is held against the API server: the lists are long, and what they are there to find should
	// never happen. auditSoon is how soon that is done again when something differs, to see whether it lasts.
	auditEvery = 10 * time.Minute
	auditSoon  = time.Minute
	// auditPage is how many objects are read at once.
	auditPage = 500
	// auditTold is how many differences are named in the log before the rest is counted.
	auditTold = 5
)

// auditor holds the mirror against what the API server itself has. Lists and events are never of the same moment, so that only
// what differs in the same way twice is told.
type auditor struct {
	mirror *state.Mirror
	// live reads from the API server itself; kinds are what is read.
	live   client.Reader
	scheme *runtime.Scheme
	kinds  []audited
	set    *meter.Set
	log    *slog.Logger

	before map[differing]bool
}

// audited is a kind of objects with the store that an informer keeps of them.
type audited struct {
	kind  client.Object
	store toolscache.Store
}

// loop audits again and again, at times that differ between processes.
func (a *auditor) loop(clock control.Clock) *control.Loop {
	waited := false
	return &control.Loop{Name: "state.audit", Clock: clock, Log: a.log, Do: func(ctx context.Context) (time.Duration, error) {
		if !waited { // nothing can have gone astray yet
			waited = true
			return wait.Jitter(auditEvery, 0.5), nil
		}
		differs, err := a.audit(ctx)
		if differs {
			return auditSoon, err
		}
		return wait.Jitter(auditEvery, 0.5), err
	}}
}

// differing is a difference to find again, without its texts: in a busy cluster many differ for a moment, and theirs are long.
type differing struct {
	kind, name string
	sum        uint64
}

func differ(d state.Difference) differing {
	h := fnv.New64a()
	_, _ = io.WriteString(h, d.Mirror)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, d.API)
	return differing{d.Kind, d.Name, h.Sum64()}
}

// audit compares once. differs says that something is not as it should be, or was not a moment ago.
func (a *auditor) audit(ctx context.Context) (differs bool, err error) {
	if !a.mirror.Synced() {
		return false, nil
	}
	objects, err := a.read(ctx)
	if err != nil {
		return false, err
	}
	now := map[differing]bool{}
	told := 0
	for _, d := range a.mirror.Audit(objects) {
		key := differ(d)
		now[key] = true
		if !a.before[key] {
			continue
		}
		a.set.Add(meter.ClusterStateDifferences, 1, "kind", d.Kind)
		if told++; told <= auditTold {
			a.log.Error("the cluster is not what it was taken for", "kind", d.Kind, "name", d.Name, "mirror", d.Mirror, "api", d.API)
		}
	}
	if told > auditTold {
		a.log.Error("more of the cluster is not what it was taken for", "objects", told-auditTold)
	}
	// What has been told once is not compared again: if it lasts, it is told at every other audit.
	for d := range a.before {
		delete(now, d)
	}
	a.before = now
	return len(now) > 0, nil
}

// read lists everything, page by page.
func (a *auditor) read(ctx context.Context) (*state.Objects, error) {
	all := &state.Objects{}
	for _, k := range a.kinds {
		gvk, err := apiutil.GVKForObject(k.kind, a.scheme)
		if err != nil {
			return nil, fmt.Errorf("auditing %T: %w", k.kind, err)
		}
		gvk.Kind += "List"
		for next := ""; ; {
			made, err := a.scheme.New(gvk)
			list, ok := made.(client.ObjectList)
			if err != nil || !ok {
				return nil, fmt.Errorf("auditing %T: there are no lists of it: %w", k.kind, err)
			}
			if err := a.live.List(ctx, list, client.Limit(auditPage), client.Continue(next)); err != nil {
				return nil, fmt.Errorf("auditing %T: %w", k.kind, err)
			}
			if err := meta.EachListItem(list, func(o runtime.Object) error { return k.add(all, o) }); err != nil {
				return nil, err
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return all, nil
}

// add adds an object as the API server has it. If the informer has the same version, its copy is used, so that the lists need not
// be held in memory.
func (k audited) add(all *state.Objects, o runtime.Object) error {
	trimmed, err := state.Trim(o)
	if err != nil {
		return fmt.Errorf("auditing %T: %w", k.kind, err)
	}
	obj, ok := trimmed.(state.Object)
	if !ok {
		return fmt.Errorf("auditing %T: %T is no object", k.kind, trimmed)
	}
	if k.store != nil {
		have, there, err := k.store.Get(obj)
		if known, ok := have.(state.Object); err == nil && there && ok && known.GetUID() == obj.GetUID() && known.GetResourceVersion() == obj.GetResourceVersion() {
			obj = known
		}
	}
	all.Put(obj)
	return nil
}

// audit wires the self-audit of the mirror.
func (w *wiring) audit(ctx context.Context) error {
	a := &auditor{mirror: w.mirror, live: w.m.GetAPIReader(), scheme: w.m.GetScheme(), set: w.set, log: w.log}
	for _, kind := range w.mirror.Kinds() {
		object, ok := kind.(client.Object)
		if !ok {
			return fmt.Errorf("%T cannot be read", kind)
		}
		k := audited{kind: object}
		informer, err := w.m.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		if x, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
			k.store = x.GetStore()
		}
		a.kinds = append(a.kinds, k)
	}
	return w.loops(a.loop(w.clock))
}
