package operator

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/state/trim"
)

const (
	// auditEvery is how often the mirror is held against the API server: the lists are long, and what they are there to find should
	// never happen. auditPause is how long after one slice the next is looked at, so that the whole takes minutes and no core.
	auditEvery = 10 * time.Minute
	auditPause = time.Second
	// auditPage is how many objects are read at once, and auditNodes of how many nodes it is derived again what they mean.
	auditPage  = 1000
	auditNodes = 100
	// auditSoon is how long what the API server had may take to be seen here: whatever is in flight has landed by then.
	auditSoon = time.Minute
	// auditSuspects bounds what is looked at once more, and auditTold what is named in the log before the rest is counted.
	auditSuspects = 1000
	auditTold     = 5
)

// auditor holds the mirror against what the API server itself has, slice by slice. It reads names and versions only. What the API
// server had and the mirror still does not know a minute later has been missed; so has what the mirror still shows a minute after
// the API server did not have it. What comes and goes meanwhile is neither. Whatever was missed is put right.
type auditor struct {
	mirror *state.Mirror
	// live reads from the API server itself; kinds are what is read.
	live   client.Reader
	scheme *runtime.Scheme
	kinds  []audited
	clock  control.Clock
	set    *meter.Set
	log    *slog.Logger

	// kind and page say where the walk over all lists is; held is what was here when the list of the kind was begun, listed what it
	// had so far. node is the last node that was derived again.
	kind   int
	page   string
	held   []heldObject
	listed map[uint64]bool
	node   string

	suspects []suspect
	told     int
}

// audited is a kind of objects with the store that an informer keeps of them.
type audited struct {
	kind  client.Object
	store toolscache.Store
}

// heldObject is something that was here.
type heldObject struct {
	key client.ObjectKey
	uid types.UID
}

// suspect is an object that differed when it was looked at, to be looked at again.
type suspect struct {
	audited
	heldObject
	// version is what the API server had; "" if it had nothing.
	version string
	due     time.Time
}

var auditSeed = maphash.MakeSeed()

// loop audits again and again, at times that differ between processes.
func (a *auditor) loop() *control.Loop {
	waited := false
	return &control.Loop{Name: "state.audit", Clock: a.clock, Log: a.log, Do: func(ctx context.Context) (time.Duration, error) {
		if !waited { // nothing can have gone astray yet
			waited = true
			return a.rest(), nil
		}
		done, err := a.step(ctx)
		if done && len(a.suspects) == 0 {
			return a.rest(), err
		}
		return auditPause, err
	}}
}

// rest is how long after one audit the next begins.
func (a *auditor) rest() time.Duration {
	return auditEvery + time.Duration(a.clock.Now().UnixNano())%(auditEvery/2)
}

// step looks at one slice. done says that a walk over everything has ended with it.
func (a *auditor) step(ctx context.Context) (done bool, err error) {
	if !a.mirror.Synced() {
		return false, nil
	}
	if err := a.confirm(ctx); err != nil {
		return false, err
	}
	if a.kind == len(a.kinds) { // only suspects were left
		if len(a.suspects) == 0 {
			a.kind, a.told = 0, 0
		}
		return true, nil
	}
	differences, last := a.mirror.Recheck(a.node, auditNodes)
	for _, d := range differences {
		a.tell(d)
	}
	a.node = last
	if err := a.list(ctx, a.kinds[a.kind]); err != nil {
		a.page, a.held, a.listed = "", nil, nil
		if apierrors.IsResourceExpired(err) { // the list was too slow for its own snapshot
			a.kind++
			err = nil
		}
		return false, err
	}
	if a.page == "" {
		a.kind, a.held, a.listed = a.kind+1, nil, nil
	}
	if a.kind < len(a.kinds) {
		return false, nil
	}
	if len(a.suspects) == 0 {
		a.kind, a.told = 0, 0
	}
	return true, nil
}

// list reads the next page of a kind.
func (a *auditor) list(ctx context.Context, k audited) error {
	gvk, err := apiutil.GVKForObject(k.kind, a.scheme)
	if err != nil {
		return fmt.Errorf("auditing %T: %w", k.kind, err)
	}
	if a.page == "" {
		a.held, a.listed = a.here(k), map[uint64]bool{}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := a.live.List(ctx, list, client.Limit(auditPage), client.Continue(a.page)); err != nil {
		return fmt.Errorf("auditing %s: %w", gvk.Kind, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		a.listed[maphash.String(auditSeed, string(o.UID))] = true
		if !knows(a.have(k, client.ObjectKeyFromObject(o)), o.UID, o.ResourceVersion) {
			a.suspect(suspect{k, heldObject{client.ObjectKeyFromObject(o), o.UID}, o.ResourceVersion, time.Time{}})
		}
	}
	if a.page = list.Continue; a.page != "" {
		return nil
	}
	for _, h := range a.held {
		if !a.listed[maphash.String(auditSeed, string(h.uid))] {
			a.suspect(suspect{k, h, "", time.Time{}})
		}
	}
	return nil
}

// here is what the mirror, or the informer of a kind that the mirror reads and does not keep, has.
func (a *auditor) here(k audited) (out []heldObject) {
	list, kept := a.mirror.All(k.kind)
	if !kept && k.store != nil {
		for _, o := range k.store.List() {
			if obj, ok := o.(state.Object); ok {
				list = append(list, obj)
			}
		}
	}
	out = make([]heldObject, len(list))
	for i, o := range list {
		out[i] = heldObject{client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID()}
	}
	return out
}

// have is one of those.
func (a *auditor) have(k audited, key client.ObjectKey) state.Object {
	obj, kept := a.mirror.Holds(k.kind, key.Namespace, key.Name)
	if kept || k.store == nil {
		return obj
	}
	o, there, err := k.store.Get(&metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name})
	if known, ok := o.(state.Object); err == nil && there && ok {
		return known
	}
	return nil
}

// knows says whether an object is at least as new as what the API server has.
func knows(have state.Object, uid types.UID, version string) bool {
	if have == nil {
		return false
	}
	if have.GetUID() == uid && have.GetResourceVersion() == version {
		return true
	}
	h, err := strconv.ParseUint(have.GetResourceVersion(), 10, 64)
	v, bad := strconv.ParseUint(version, 10, 64)
	return err == nil && bad == nil && h >= v
}

func (a *auditor) suspect(s suspect) {
	if len(a.suspects) < auditSuspects {
		s.due = a.clock.Now().Add(auditSoon)
		a.suspects = append(a.suspects, s)
	}
}

// confirm looks once more at what was suspected long enough ago.
func (a *auditor) confirm(ctx context.Context) error {
	for len(a.suspects) > 0 && !a.clock.Now().Before(a.suspects[0].due) {
		if err := a.judge(ctx, a.suspects[0]); err != nil {
			return err
		}
		a.suspects = a.suspects[1:]
	}
	return nil
}

// judge tells of an object that is still not what the API server has, and puts it right.
func (a *auditor) judge(ctx context.Context, s suspect) error {
	have := a.have(s.audited, s.key)
	if s.version != "" && knows(have, s.uid, s.version) || s.version == "" && (have == nil || have.GetUID() != s.uid) {
		return nil
	}
	live, err := a.read(ctx, s)
	if err != nil {
		return err
	}
	kind := fmt.Sprintf("%T", s.kind)
	if gvk, err := apiutil.GVKForObject(s.kind, a.scheme); err == nil {
		kind = gvk.Kind
	}
	d := state.Difference{Kind: kind, Name: s.key.String(), Mirror: describe(have), API: describe(live)}
	switch {
	case s.version != "" && live != nil && live.GetUID() == s.uid && a.mirror.Serves(live):
		a.mirror.Put(live)
	case s.version == "" && (live == nil || live.GetUID() != s.uid):
		a.mirror.Drop(have)
	default:
		return nil
	}
	a.tell(d)
	return nil
}

// read is an object as the API server has it now, or nil.
func (a *auditor) read(ctx context.Context, s suspect) (state.Object, error) {
	gvk, err := apiutil.GVKForObject(s.kind, a.scheme)
	if err != nil {
		return nil, fmt.Errorf("auditing %T: %w", s.kind, err)
	}
	made, err := a.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	list, ok := made.(client.ObjectList)
	if err != nil || !ok {
		return nil, fmt.Errorf("auditing %s: there are no lists of it: %w", gvk.Kind, err)
	}
	// A list of one needs no right that listing all does not.
	if err := a.live.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingFields{"metadata.name": s.key.Name}); err != nil {
		return nil, fmt.Errorf("auditing %s %s: %w", gvk.Kind, s.key, err)
	}
	var found state.Object
	err = meta.EachListItem(list, func(o runtime.Object) error {
		trimmed, err := trim.Object(o)
		if obj, ok := trimmed.(state.Object); ok {
			found = obj
		}
		return err
	})
	return found, err
}

func describe(o state.Object) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("uid=%s version=%s", o.GetUID(), o.GetResourceVersion())
}

// tell counts a difference, and names the first few of a walk.
func (a *auditor) tell(d state.Difference) {
	a.set.Add(meter.ClusterStateDifferences, 1, "kind", d.Kind)
	if a.told++; a.told <= auditTold {
		a.log.Error("the cluster is not what it was taken for", "kind", d.Kind, "name", d.Name, "mirror", d.Mirror, "api", d.API)
	}
}

// audit wires the self-audit of the mirror.
func (w *wiring) audit(ctx context.Context) error {
	a := &auditor{mirror: w.mirror, live: w.m.GetAPIReader(), scheme: w.m.GetScheme(), clock: w.clock, set: w.set, log: w.log}
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
	return w.loops(a.loop())
}
