package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"karpenter/test/harness"
)

var (
	differSeed = flag.Uint64("differ.seed", 0, "first seed of the sequences that are run on both servers; 0 for the usual ones")
	differOps  = flag.Int("differ.ops", 0, "how many operations are run on both servers; 0 for the usual number")
)

const (
	usualOps  = 22000
	shortOps  = 2000
	perSeed   = 40 // operations of one sequence
	atOnce    = 12 // sequences
	tooLong   = 8 * time.Minute
	firstSeed = 1
	most      = 5 // differences that are shown
)

// TestSameAsAPIServer runs random operations on the real kube-apiserver and on ours, and compares every answer.
func TestSameAsAPIServer(t *testing.T) {
	log.SetLogger(logr.Discard())
	total := usualOps
	if testing.Short() {
		total = shortOps
	}
	total = cmp.Or(*differOps, total)
	cluster := harness.Start(t, harness.Options{NoWatchCache: true})
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &impatient{next} })
	real, err := client.New(config, client.Options{Scheme: harness.Scheme()})
	must(t, err)
	d := &differ{real: real, kinds: differKinds(t)}
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	defer cancel()
	var next, done, refused, reported atomic.Int64
	next.Store(int64(cmp.Or(*differSeed, firstSeed)) - 1)
	var wg sync.WaitGroup
	begin := time.Now()
	for range atOnce {
		wg.Go(func() {
			for done.Load() < int64(total) && ctx.Err() == nil && !t.Failed() {
				seed := uint64(next.Add(1))
				ops := d.draw(seed)
				n, no, diff := d.run(ctx, ops)
				done.Add(int64(n))
				refused.Add(int64(no))
				if diff != "" && reported.Add(1) <= most {
					short, diff := d.shrink(ctx, ops[:n], diff)
					t.Errorf("seed %d: the servers differ after\n  %s\n%s\nagain with: go test ./internal/sim/kube -run SameAsAPIServer -differ.seed %d -differ.ops 1", seed, strings.Join(short, "\n  "), diff, seed)
				}
			}
		})
	}
	wg.Wait()
	if done.Load() < int64(total) && !t.Failed() {
		t.Errorf("only %d of %d operations within %v", done.Load(), total, tooLong)
	}
	t.Logf("%d operations, %d of them refused by both, in %v", done.Load(), refused.Load(), time.Since(begin).Round(time.Millisecond))
}

// impatient lets nobody wait because an answer says so.
type impatient struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := i.next.RoundTrip(r)
	if err == nil {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}

// action is one operation; everything that is random in it was drawn before.
type action struct {
	verb    string
	kind    int
	name    int
	variant int // of the object or of the change
	lock    int // which version it relies on
	grace   int
	spread  int // propagation policy
}

type differ struct {
	real  client.Client
	kinds []differKind
	runs  atomic.Int64
}

// verbs and how often they are drawn.
var verbs = []struct {
	name   string
	weight int
}{
	{"create", 24}, {"update", 14}, {"status update", 8}, {"patch", 22}, {"status patch", 12}, {"delete", 12}, {"finish", 6}, {"list", 4}, {"evict", 8}, {"bind", 6}, {"budget", 5}, {"get", 2},
}

func (d *differ) draw(seed uint64) (out []action) {
	r := rand.New(rand.NewPCG(seed, 1))
	sum := 0
	for _, v := range verbs {
		sum += v.weight
	}
	// A sequence is about a few kinds, so that operations meet.
	some := []int{r.IntN(len(d.kinds)), r.IntN(len(d.kinds)), 0}
	for i := range perSeed {
		if i < len(some)*2 { // most of the rest needs something to be there
			out = append(out, action{verb: "create", kind: some[i%len(some)], name: i / len(some), variant: 1 + 3*r.IntN(1<<18)})
			continue
		}
		at, verb := r.IntN(sum), ""
		for _, v := range verbs {
			if at -= v.weight; at < 0 {
				verb = v.name
				break
			}
		}
		out = append(out, action{verb, some[r.IntN(len(some))], r.IntN(3), r.IntN(1 << 20), r.IntN(8), r.IntN(6), r.IntN(8)})
	}
	return out
}

// run runs actions on both, and returns how many were run, how many were refused, and what differs.
func (d *differ) run(ctx context.Context, ops []action) (n, refused int, diff string) {
	id := d.runs.Add(1)
	space := fmt.Sprintf("d%d", id)
	server := NewServer(harness.Scheme(), time.Now, Seed(uint64(id)))
	ours := &side{differ: d, c: server.Client("test"), space: space}
	theirs := &side{differ: d, c: d.real, space: space}
	for _, s := range []*side{theirs, ours} {
		s.reset()
		if err := s.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}); err != nil {
			return 0, 0, err.Error()
		}
	}
	for i, a := range ops {
		want, got := theirs.do(ctx, a), ours.do(ctx, a)
		if ctx.Err() != nil {
			return i, refused, ""
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			return i + 1, refused, fmt.Sprintf("last: %s\n(-kube-apiserver +ours)\n%s", d.show(a), diff)
		}
		if want["error"] != nil {
			refused++
		}
	}
	if diff := gocmp.Diff(theirs.all(ctx, ops), ours.all(ctx, ops)); diff != "" && ctx.Err() == nil {
		return len(ops), refused, "what is there at the end (-kube-apiserver +ours)\n" + diff
	}
	return len(ops), refused, ""
}

// shrink leaves out what is not needed to make a difference.
func (d *differ) shrink(ctx context.Context, ops []action, diff string) ([]string, string) {
	for i := len(ops) - 2; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(ops), i, i+1)
		if n, _, found := d.run(ctx, fewer); found != "" {
			ops, diff = fewer[:n], found
			i = min(i, len(ops)-1)
		}
	}
	var out []string
	for _, a := range ops {
		out = append(out, d.show(a))
	}
	return out, diff
}

func (d *differ) show(a action) string {
	k := d.kinds[a.kind]
	return fmt.Sprintf("%s %s %d variant %s lock %d grace %d spread %d", a.verb, k.name, a.name, k.describe(a), a.lock, a.grace, a.spread)
}

// side is one of the two servers with what was seen there.
type side struct {
	*differ
	c     client.Client
	space string
	seen  map[string][]client.Object // versions of an object, oldest first
	names map[string]string          // UIDs and versions in the order in which they came up
}

func (s *side) reset() { s.seen, s.names = map[string][]client.Object{}, map[string]string{} }

// alias is the same on both sides for what came up at the same time.
func (s *side) alias(prefix, value string) string {
	if value == "" {
		return ""
	}
	if s.names[prefix+value] == "" {
		s.names[prefix+value] = fmt.Sprintf("%s%d", prefix, len(s.names))
	}
	return s.names[prefix+value]
}

func (s *side) key(k *differKind, name int) types.NamespacedName {
	n := string(rune('a' + name))
	if k.cluster {
		return types.NamespacedName{Name: s.space + "-" + n}
	}
	return types.NamespacedName{Namespace: s.space, Name: n}
}

// result is what is compared.
type result map[string]any

func (s *side) do(ctx context.Context, a action) result {
	k := &s.kinds[a.kind]
	key := s.key(k, a.name)
	obj, err := s.attempt(ctx, k, key, a)
	out := result{}
	if err != nil {
		out["error"] = s.failure(err)
	} else if obj != nil {
		out["object"] = s.plain(k, obj)
		s.remember(k, key, obj)
	}
	switch a.verb {
	case "delete", "finish", "evict", "bind", "budget", "update":
		now := k.new()
		if a.verb == "evict" || a.verb == "bind" {
			k = &s.kinds[0]
			key, now = s.key(k, a.name), &corev1.Pod{}
		}
		if err := s.c.Get(ctx, key, now); err != nil {
			out["then"] = s.failure(err)
		} else {
			out["then"] = s.plain(k, now)
			s.remember(k, key, now)
		}
	}
	return out
}

func (s *side) remember(k *differKind, key types.NamespacedName, obj client.Object) {
	if obj.GetName() != key.Name {
		return
	}
	if _, ok := obj.(*unstructured.Unstructured); ok {
		typed := k.new()
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, typed) != nil {
			return
		}
		typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		obj = typed
	}
	id := k.name + "/" + key.Name
	s.seen[id] = append(s.seen[id], obj.DeepCopyObject().(client.Object))
}

// version is an object as it was seen: mostly the newest version, now and then an older one.
func (s *side) version(k *differKind, key types.NamespacedName, lock int) client.Object {
	list := s.seen[k.name+"/"+key.Name]
	if len(list) == 0 {
		return nil
	}
	at := len(list) - 1
	if lock == 7 {
		at = max(0, at-2)
	}
	return list[at].DeepCopyObject().(client.Object)
}

func (s *side) attempt(ctx context.Context, k *differKind, key types.NamespacedName, a action) (client.Object, error) {
	if k.lazy && (strings.Contains(a.verb, "update") || strings.Contains(a.verb, "patch")) {
		return nil, nil
	}
	if now := s.version(k, key, 0); now != nil && now.GetDeletionTimestamp() != nil && strings.Contains(k.describe(a), "deletion") {
		return nil, nil // it changes who owns the field, which is not kept here
	}
	switch a.verb {
	case "create":
		obj := k.build(s, key, a.variant)
		return obj, s.c.Create(ctx, obj)
	case "get":
		obj := k.new()
		return obj, s.c.Get(ctx, key, obj)
	case "list":
		return nil, s.list(ctx, k, a)
	case "update", "status update":
		obj := s.version(k, key, a.lock)
		if obj == nil {
			obj = k.build(s, key, 0)
		}
		if a.lock == 6 {
			obj.SetResourceVersion("")
		}
		if a.lock == 5 {
			obj.SetUID("00000000-0000-4000-8000-000000000000")
		}
		if a.verb == "status update" {
			k.setStatus(obj, a.variant)
			return obj, s.c.Status().Update(ctx, obj)
		}
		k.change(s, obj, a.variant)
		return obj, s.c.Update(ctx, obj)
	case "patch", "status patch":
		body := k.patch(a.verb == "status patch", a.variant)
		if now := s.version(k, key, a.lock); now != nil && a.lock >= 4 {
			body = withMeta(body, "resourceVersion", now.GetResourceVersion())
		} else if now != nil && a.lock == 3 {
			body = withMeta(body, "uid", string(now.GetUID()))
		}
		obj := k.new()
		obj.SetName(key.Name)
		obj.SetNamespace(key.Namespace)
		patch := client.RawPatch(types.MergePatchType, []byte(body))
		if a.verb == "status patch" {
			return obj, s.c.Status().Patch(ctx, obj, patch)
		}
		return obj, s.c.Patch(ctx, obj, patch)
	case "finish": // as the product takes finalizers off
		obj := s.version(k, key, a.lock)
		if obj == nil || len(obj.GetFinalizers()) == 0 {
			return nil, nil
		}
		before := obj.DeepCopyObject().(client.Object)
		obj.SetFinalizers(obj.GetFinalizers()[1:])
		return obj, s.c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	case "delete":
		obj := k.new()
		obj.SetName(key.Name)
		obj.SetNamespace(key.Namespace)
		return nil, s.c.Delete(ctx, obj, s.deletion(k, key, a))
	case "evict", "bind":
		return nil, s.pod(ctx, a)
	case "budget":
		return nil, s.budget(ctx, key, a)
	}
	return nil, errors.New("no such verb " + a.verb)
}

func withMeta(body, field, value string) string {
	m := map[string]any{}
	if json.Unmarshal([]byte(body), &m) != nil {
		return body
	}
	meta, _ := m["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta[field] = value
	m["metadata"] = meta
	out, _ := json.Marshal(m)
	return string(out)
}

func (s *side) deletion(k *differKind, key types.NamespacedName, a action) *client.DeleteOptions {
	o := &client.DeleteOptions{}
	if now := s.version(k, key, a.lock); now != nil {
		uid, version := now.GetUID(), now.GetResourceVersion()
		switch a.lock {
		case 3, 4:
			o.Preconditions = &metav1.Preconditions{UID: &uid}
		case 5:
			o.Preconditions = &metav1.Preconditions{UID: new(types.UID("other"))}
		case 6, 7:
			o.Preconditions = &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		}
	}
	o.GracePeriodSeconds = []*int64{nil, nil, new(int64(0)), new(int64(7)), new(int64(300)), new(int64(-3))}[a.grace]
	if a.spread >= 4 {
		o.PropagationPolicy = []*metav1.DeletionPropagation{new(metav1.DeletePropagationBackground), new(metav1.DeletePropagationForeground), new(metav1.DeletePropagationOrphan), new(metav1.DeletionPropagation("Sideways"))}[a.spread-4]
	}
	return o
}

// pod evicts or binds a pod.
func (s *side) pod(ctx context.Context, a action) error {
	key := s.key(&s.kinds[0], a.name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	name := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	now := s.version(&s.kinds[0], key, a.lock)
	if a.verb == "bind" {
		b := &corev1.Binding{ObjectMeta: name, Target: corev1.ObjectReference{Kind: "Node", Name: []string{"n1", "n2", ""}[a.variant%3]}}
		switch {
		case now != nil && a.lock == 3:
			b.UID = now.GetUID()
		case a.lock == 4:
			b.UID = "other"
		case a.lock == 5:
			b.Annotations = map[string]string{"bound": "yes"}
		}
		return s.c.SubResource("binding").Create(ctx, pod, b)
	}
	e := &policyv1.Eviction{ObjectMeta: name}
	switch {
	case now != nil && a.lock >= 3 && a.lock <= 5:
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(now.GetUID())}}
	case a.lock == 6:
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}}
	case now != nil && a.lock == 7:
		e.DeleteOptions = &metav1.DeleteOptions{GracePeriodSeconds: new(int64(3)), Preconditions: &metav1.Preconditions{ResourceVersion: new(now.GetResourceVersion())}}
	}
	return s.c.SubResource("eviction").Create(ctx, pod, e)
}

var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)

// generated are names whose end is random.
var generated = regexp.MustCompile(`^Bad Name.*`)

// plain is an object without what cannot be the same.
func (s *side) plain(k *differKind, obj client.Object) any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		typed := k.new()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return err.Error()
		}
		obj = typed
	}
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetManagedFields(nil)
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	data, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	m := map[string]any{}
	if err := json.Unmarshal(data, &m); err != nil {
		return err.Error()
	}
	m["typeMeta"] = kind
	m = s.smooth(m).(map[string]any)
	if meta, ok := m["metadata"].(map[string]any); ok {
		meta["name"] = generated.ReplaceAllString(obj.GetName(), "Bad Name")
		meta["uid"], meta["resourceVersion"] = s.alias("uid", string(obj.GetUID())), s.alias("version", obj.GetResourceVersion())
	}
	return m
}

func (s *side) smooth(x any) any {
	switch x := x.(type) {
	case map[string]any:
		for key, v := range x {
			if x[key] = s.smooth(v); key == "uid" && v != "" {
				x[key] = s.alias("uid", v.(string))
			}
		}
	case []any:
		for i, v := range x {
			x[i] = s.smooth(v)
		}
	case string:
		if moment.MatchString(x) {
			return "a moment"
		}
	}
	return x
}

// failure is what is compared of an error.
func (s *side) failure(err error) any {
	var found *listed
	if errors.As(err, &found) {
		return found.names
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return map[string]any{"other": err.Error()}
	}
	is := status.Status()
	out := map[string]any{"reason": string(is.Reason), "code": is.Code}
	if is.Details != nil {
		causes := map[string]bool{}
		for _, c := range is.Details.Causes {
			causes[string(c.Type)+" "+c.Field] = true
		}
		out["causes"] = slices.Sorted(maps.Keys(causes))
		out["kind"], out["name"], out["retry"] = is.Details.Kind, generated.ReplaceAllString(is.Details.Name, "Bad Name"), is.Details.RetryAfterSeconds
	}
	return out
}

// all is everything that a sequence has left behind.
func (s *side) all(ctx context.Context, ops []action) any {
	out, kinds := []any{}, map[int]bool{0: true}
	for _, a := range ops {
		kinds[a.kind] = true
	}
	for _, n := range slices.Sorted(maps.Keys(kinds)) {
		k := &s.kinds[n]
		for name := range 3 {
			obj := k.new()
			if err := s.c.Get(ctx, s.key(k, name), obj); err == nil {
				out = append(out, s.plain(k, obj))
			}
		}
	}
	return out
}
