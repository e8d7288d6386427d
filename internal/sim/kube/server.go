package kube

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server holds objects of every kind in a scheme and keeps the rules that kube-apiserver keeps. It is not safe for concurrent use.
type Server struct {
	// Hook sees every request twice, before and after it takes effect. What it returns is the answer to the caller: before, in place of
	// the effect; after, in place of the true answer. It may panic to end the caller where it stands.
	Hook func(*Op) error
	// Stored sees every object that is stored or removed, with the version before it; nil where there is none. Look, don't touch.
	Stored func(old, obj client.Object)

	scheme  *runtime.Scheme
	now     func() time.Time
	lenient bool
	random  *rand.Rand
	kinds   map[schema.GroupVersionKind]*kind
	types   map[reflect.Type]*kind
	mapper  meta.RESTMapper // nil until it is asked for
	version uint64
	ops     uint64
	caches  []*Cache
	garbage garbage
	budgets stale
}

// Option changes how a server behaves.
type Option func(*Server)

// Seed draws names and UIDs from a source of this seed; without it, from that of seed 0.
func Seed(seed uint64) Option {
	return func(s *Server) { s.random = rand.New(rand.NewPCG(seed, 0)) }
}

// WithoutValidation accepts any object of our own kinds that their Go types can hold. Defaults are still filled in. It is for speed.
func WithoutValidation() Option { return func(s *Server) { s.lenient = true } }

// NewServer makes a server that holds nothing but the namespaces that every cluster has.
func NewServer(scheme *runtime.Scheme, now func() time.Time, opts ...Option) *Server {
	s := &Server{scheme: scheme, now: now, kinds: map[schema.GroupVersionKind]*kind{}, types: map[reflect.Type]*kind{}}
	for _, o := range append([]Option{Seed(0)}, opts...) {
		o(s)
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		k := s.mustKind(&corev1.Namespace{})
		if _, err := s.create(k, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			panic("creating namespace " + name + ": " + err.Error())
		}
	}
	return s
}

// Version is the newest resourceVersion.
func (s *Server) Version() string { return strconv.FormatUint(s.version, 10) }

// Each shows all objects of a kind as they are stored, in the order of lists, without a request: look, don't touch.
func (s *Server) Each(kind client.Object, visit func(client.Object)) {
	k := s.mustKind(kind)
	for _, key := range k.keys {
		visit(k.objects[key])
	}
}

// Look is an object as it is stored, without a request, or nil.
func (s *Server) Look(kind client.Object, key types.NamespacedName) client.Object {
	return s.mustKind(kind).objects[key]
}

// Revision is Version as a number.
func (s *Server) Revision() uint64 { return s.version }

// Op is one request.
type Op struct {
	// Seq counts requests from 1.
	Seq uint64
	// User is who asks: the argument of Client.
	User string
	// Verb is get, list, create, update, patch, delete or deletecollection.
	Verb        string
	Kind        schema.GroupVersionKind
	Key         types.NamespacedName
	Subresource string
	// Done is false before the effect and true after it. What follows is set after it.
	Done bool
	Err  error
	// Old is the object before the request and New after it, nil where there is none. They are the server's own: look, don't touch.
	Old, New client.Object
}

// Writes says whether the request may change something.
func (o *Op) Writes() bool { return o.Verb != "get" && o.Verb != "list" }

// String is one line of history.
func (o *Op) String() string {
	name := o.Key.Name
	if o.Key.Namespace != "" {
		name = o.Key.Namespace + "/" + name
	}
	sub := ""
	if o.Subresource != "" {
		sub = "/" + o.Subresource
	}
	line := fmt.Sprintf("%d %s %s %s%s %s", o.Seq, o.User, o.Verb, o.Kind.Kind, sub, name)
	switch {
	case !o.Done:
		return line
	case o.Err != nil:
		return line + ": " + o.Err.Error()
	case o.New != nil:
		return line + " -> " + o.New.GetResourceVersion()
	}
	return line + " -> gone"
}

// do carries a request out between the two calls of the hook.
func (s *Server) do(op *Op, run func() (client.Object, error)) (client.Object, error) {
	s.ops++
	op.Seq = s.ops
	if s.Hook == nil {
		return run()
	}
	if err := s.Hook(op); err != nil {
		return nil, err
	}
	k := s.kinds[op.Kind]
	if op.Writes() && k != nil {
		op.Old = k.objects[op.Key]
	}
	out, err := run()
	if op.Writes() && k != nil {
		if op.Key.Name == "" && out != nil {
			op.Key.Name = out.GetName()
		}
		op.New = k.objects[op.Key]
	}
	op.Done, op.Err = true, err
	if e := s.Hook(op); e != nil {
		return nil, e
	}
	return out, err
}

// kind is a table of objects and the rules for them.
type kind struct {
	gvk        schema.GroupVersionKind
	resource   schema.GroupResource
	namespaced bool
	object     reflect.Type // the struct
	spec       []int        // index of the field, empty if there is none
	status     []int
	rules      *rules
	custom     *definition

	objects map[types.NamespacedName]client.Object
	keys    []types.NamespacedName // in the order of lists
	// raw is what JSON has of an object of ours besides its metadata. A Go type does not tell what is empty from what is not there;
	// kube-apiserver does, and so do rules that compare. Objects that came without validation have none.
	raw map[client.Object]map[string]any
}

// kindOf finds the kind of an object or of a list.
func (s *Server) kindOf(obj runtime.Object) (*kind, error) {
	if k := s.types[reflect.TypeOf(obj)]; k != nil {
		return k, nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
	default:
		known, _, err := s.scheme.ObjectKinds(obj)
		if err != nil {
			return nil, err
		}
		gvk = known[0]
	}
	if _, object := obj.(client.Object); !object {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return s.kind(gvk)
}

func (s *Server) mustKind(obj runtime.Object) *kind {
	k, err := s.kindOf(obj)
	if err != nil {
		panic(err)
	}
	return k
}

func (s *Server) kind(gvk schema.GroupVersionKind) (*kind, error) {
	if k := s.kinds[gvk]; k != nil {
		return k, nil
	}
	object, err := s.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object: %T", gvk, object)
	}
	k := &kind{gvk: gvk, object: reflect.TypeOf(typed).Elem(), custom: definitions()[gvk], raw: map[client.Object]map[string]any{}, objects: map[types.NamespacedName]client.Object{}}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	k.resource, k.namespaced = resource.GroupResource(), !clusterScoped[gvk.GroupKind()]
	if k.custom != nil {
		k.resource.Resource, k.namespaced = k.custom.plural, k.custom.namespaced
	}
	if f, ok := k.object.FieldByName("Spec"); ok {
		k.spec = f.Index
	}
	if f, ok := k.object.FieldByName("Status"); ok {
		k.status = f.Index
	}
	k.rules = rulesOf(k)
	s.kinds[gvk], s.types[reflect.TypeOf(typed)] = k, k
	if list, err := s.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List")); err == nil {
		s.types[reflect.TypeOf(list)] = k
	}
	return k, nil
}

func (k *kind) new() client.Object { return reflect.New(k.object).Interface().(client.Object) }

// part is the spec or the status of an object.
func part(obj client.Object, index []int) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByIndex(index)
}

func keyOf(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// inOrder compares keys as etcd does.
func inOrder(a, b types.NamespacedName) int {
	if a.Namespace == b.Namespace {
		return cmp.Compare(a.Name, b.Name)
	}
	return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// put stores a new version of an object, which must not be changed from then on.
func (s *Server) put(k *kind, obj client.Object) client.Object {
	s.version++
	obj.SetResourceVersion(strconv.FormatUint(s.version, 10))
	key := keyOf(obj)
	old := k.objects[key]
	if old == nil {
		at, _ := slices.BinarySearchFunc(k.keys, key, inOrder)
		k.keys = slices.Insert(k.keys, at, key)
	}
	k.objects[key] = obj
	if raw, ok := k.raw[old]; ok {
		if delete(k.raw, old); k.raw[obj] == nil {
			k.raw[obj] = raw // only metadata has changed
		}
	}
	s.stored(k, old, obj)
	for _, c := range s.caches {
		c.note(k, change{obj: obj})
	}
	return obj
}

// stored tells all that keep up with what is stored. old or obj is nil where there is none.
func (s *Server) stored(k *kind, old, obj client.Object) {
	s.garbage.note(k, old, obj)
	s.budgets.note(old, obj)
	if s.Stored != nil {
		s.Stored(old, obj)
	}
}

// remove takes an object away and returns its last version.
func (s *Server) remove(k *kind, obj client.Object) client.Object {
	key := keyOf(obj)
	old := k.objects[key]
	at, found := slices.BinarySearchFunc(k.keys, key, inOrder)
	if !found {
		return obj
	}
	k.keys = slices.Delete(k.keys, at, at+1)
	delete(k.objects, key)
	delete(k.raw, old)
	delete(k.raw, obj)
	s.version++
	last := obj.DeepCopyObject().(client.Object)
	last.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.stored(k, old, nil)
	for _, c := range s.caches {
		c.note(k, change{obj: last, gone: true})
	}
	return obj
}

// uid draws a UID.
func (s *Server) uid() types.UID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.random.Uint64())
	binary.BigEndian.PutUint64(b[8:], s.random.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	x := hex.EncodeToString(b[:])
	return types.UID(x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:])
}

// name makes a name from generateName.
func (s *Server) name(base string) string {
	const letters, random, longest = "bcdfghjklmnpqrstvwxz2456789", 5, 63
	out := []byte(base[:min(len(base), longest-random)])
	for range random {
		out = append(out, letters[s.random.IntN(len(letters))])
	}
	return string(out)
}

// time is now as objects hold it.
func (s *Server) time() metav1.Time { return metav1.NewTime(s.now().Truncate(time.Second).Local()) }
