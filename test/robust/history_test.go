package robust

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/sim"
	"karpenter/internal/sim/kube"
)

const (
	// account is whom the controller writes as.
	account   = "system:serviceaccount:kube-system:karpenter"
	leaseName = "karpenter-leader-election"
	// settle is how long the history waits for what has happened before: a request is noted when it is over.
	settle = 20 * time.Second
)

// auditPolicy has the API server note every write to what the rules are about, whoever it is from, and the lease of the controller.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: RequestResponse
    verbs: [create, update, patch, delete]
    resources:
      - {group: "", resources: [pods, pods/status, pods/eviction, pods/binding, nodes, nodes/status]}
      - {group: karpenter.sh, resources: [nodeclaims, nodeclaims/status, nodepools, nodepools/status]}
      - {group: karpenter.k8s.aws, resources: [ec2nodeclasses, ec2nodeclasses/status]}
  - level: RequestResponse
    verbs: [create, update, patch]
    resources:
      - {group: coordination.k8s.io, resources: [leases], resourceNames: [karpenter-leader-election]}
  - level: None
`

// noted is a request as the API server notes it.
type noted struct {
	Verb, RequestURI string
	User             struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef *struct{ Resource, Namespace, Name, APIGroup, APIVersion, Subresource string }

	ResponseStatus                *struct{ Code int }
	RequestObject, ResponseObject json.RawMessage
	RequestReceivedTimestamp      metav1.MicroTime
}

// kinds are those that the rules are about.
var kinds = map[string]struct {
	kind schema.GroupVersionKind
	new  func() client.Object
}{
	"pods":           {corev1.SchemeGroupVersion.WithKind("Pod"), func() client.Object { return &corev1.Pod{} }},
	"nodes":          {corev1.SchemeGroupVersion.WithKind("Node"), func() client.Object { return &corev1.Node{} }},
	"nodeclaims":     {karpv1.SchemeGroupVersion.WithKind("NodeClaim"), func() client.Object { return &karpv1.NodeClaim{} }},
	"nodepools":      {karpv1.SchemeGroupVersion.WithKind("NodePool"), func() client.Object { return &karpv1.NodePool{} }},
	"ec2nodeclasses": {awsv1.SchemeGroupVersion.WithKind("EC2NodeClass"), func() client.Object { return &awsv1.EC2NodeClass{} }},
}

// history is what has happened, from the API server's audit log and from what passes on the way to AWS; a judge is shown it in the
// order of time, some seconds later.
type history struct {
	judge *sim.Judge

	mu     sync.Mutex
	events []*entry
	last   map[string]string // states of instances
	// seen is how many events the judge has seen; writes and calls are the controller's own.
	seen, writes, calls int
	// unknown is how many calls were of a process that had ended when they were looked at.
	unknown int
	effects []effect
	// listed is when all instances were listed last.
	listed time.Time
	// conflicts are how often in a row a write to an object was in conflict, repeats how often writes were that were done then.
	conflicts map[string]int
	repeats   []int
	// doubts are writes of which the API server does not say whether they took effect; look reads an object as it is.
	doubts     []*noted
	tookEffect int
	look       func(key types.NamespacedName, object client.Object) error
	// tell is what the judge is told next.
	tell []func(*sim.Judge)
}

// entry is an event, with what orders the writes of one object.
type entry struct {
	sim.Event
	object  string
	version uint64
}

// effect is when the controller did something, and which of its processes.
type effect struct {
	at      time.Time
	process string
}

// read takes a line of the audit log.
func (h *history) read(line []byte) error {
	var n noted
	if err := json.Unmarshal(line, &n); err != nil {
		return fmt.Errorf("%w: %.200s", err, line)
	}
	if n.ObjectRef != nil && n.ResponseStatus != nil && n.User.Username == account {
		h.tried(&n)
	}
	if n.ObjectRef == nil || strings.Contains(n.RequestURI, "dryRun=") {
		return nil
	}
	if n.ResponseStatus == nil || n.ResponseStatus.Code >= 500 {
		h.doubts = append(h.doubts, &n)
		return nil
	}
	if n.ResponseStatus.Code >= 300 {
		return nil
	}
	e := n.entry()
	if n.ObjectRef.Resource == "leases" {
		var lease coordinationv1.Lease
		if err := json.Unmarshal(n.ResponseObject, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity != nil {
			e.Process = ""
			e.Leader, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		}
		h.add(e)
		return nil
	}
	of, ok := kinds[n.ObjectRef.Resource]
	if !ok {
		return nil
	}
	object := of.new()
	op := &kube.Op{User: n.User.Username, Verb: n.Verb, Kind: of.kind, Subresource: n.ObjectRef.Subresource, Done: true, New: object}
	op.Key = types.NamespacedName{Namespace: n.ObjectRef.Namespace, Name: n.ObjectRef.Name}
	e.Write = op
	if err := n.decode(e); err != nil {
		return err
	}
	if op.Key.Name == "" { // it was generated
		op.Key.Name = op.New.GetName()
	}
	e.object = n.ObjectRef.Resource + " " + op.Key.String()
	h.add(e)
	return nil
}

// entry is the request as an event, without what it has done.
func (n *noted) entry() *entry {
	e := &entry{Event: sim.Event{At: n.RequestReceivedTimestamp.Time}}
	if n.User.Username == account {
		e.Process = "controller"
		if names := n.User.Extra["authentication.kubernetes.io/pod-name"]; len(names) == 1 {
			e.Process = names[0]
		}
	}
	return e
}

// doubted finds out what became of writes whose sender had gone, or which took the API server too long: they may have taken effect all the
// same, soon after they were noted.
func (h *history) doubted(until time.Time) error {
	h.mu.Lock()
	look := h.look
	h.mu.Unlock()
	var left []*noted
	for _, n := range h.doubts {
		of, ok := kinds[n.ObjectRef.Resource]
		if !ok {
			continue
		}
		if look == nil || n.RequestReceivedTimestamp.After(until) {
			left = append(left, n)
			continue
		}
		asked := of.new()
		if n.ObjectRef.Subresource == "" && n.Verb == "create" {
			if err := json.Unmarshal(n.RequestObject, asked); err != nil {
				return fmt.Errorf("reading what was to be created by %s: %w", n.RequestURI, err)
			}
		}
		key := types.NamespacedName{Namespace: n.ObjectRef.Namespace, Name: cmp.Or(n.ObjectRef.Name, asked.GetName())}
		now := of.new()
		err := look(key, now)
		if client.IgnoreNotFound(err) != nil { // the API server is away
			left = append(left, n)
			continue
		}
		e := n.entry()
		if n.Verb != "create" || n.ObjectRef.Subresource != "" { // what it is now may be another's doing
			e.Process = ""
		}
		e.Gone = err != nil
		e.Write = &kube.Op{User: n.User.Username, Verb: n.Verb, Kind: of.kind, Subresource: n.ObjectRef.Subresource, Done: true, New: now, Key: key}
		if asked.GetName() != "" { // it is noted as it was created: what followed is noted itself
			if e.Gone {
				continue
			}
			asked.SetUID(now.GetUID())
			asked.SetCreationTimestamp(now.GetCreationTimestamp())
			e.Write.New = asked
		}
		h.tookEffect++
		h.add(e)
	}
	h.doubts = left
	return nil
}

// TestHistory_AWriteWhoseSenderHasGone has the API server note a timeout for writes that take effect all the same.
func TestHistory_AWriteWhoseSenderHasGone(t *testing.T) {
	h := &history{last: map[string]string{}, judge: sim.NewJudge(func(string) int { return 2 }, time.Minute)}
	there := true
	h.looks(func(key types.NamespacedName, object client.Object) error {
		if !there {
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
		object.SetName(key.Name)
		object.SetUID("1")
		return nil
	})
	begin := time.Now().Add(-time.Hour).UTC()
	note := func(after time.Duration, verb, asked string) {
		t.Helper()
		line := fmt.Sprintf(`{"verb":%q,"requestURI":"/apis/karpenter.sh/v1/nodeclaims","user":{"username":%q},"objectRef":{"resource":"nodeclaims","name":"c1"},
			"responseStatus":{"code":504},"requestObject":%s,"requestReceivedTimestamp":%q}`, verb, account, asked, begin.Add(after).Format(metav1.RFC3339Micro))
		if err := errors.Join(h.read([]byte(line)), h.doubted(time.Now())); err != nil {
			t.Fatal(err)
		}
		h.judged(time.Now())
	}
	known := func() bool {
		return h.judge.Look(&karpv1.NodeClaim{}, types.NamespacedName{Name: "c1"}) != nil
	}
	there = false
	if note(0, "create", `{"metadata":{"name":"c1"}}`); known() {
		t.Error("a NodeClaim that was never created is on record")
	}
	there = true
	if note(time.Minute, "create", `{"metadata":{"name":"c1"}}`); !known() {
		t.Error("a NodeClaim that was created is not on record")
	}
	there = false
	if note(2*time.Minute, "patch", `{}`); known() {
		t.Error("a NodeClaim that is gone is on record")
	}
}

// decode finds out what a write has left.
func (n *noted) decode(e *entry) error {
	switch n.ObjectRef.Subresource {
	case "eviction":
		e.Change = func(before client.Object) (client.Object, bool) {
			pod := before.DeepCopyObject().(*corev1.Pod)
			if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil && *grace == 0 {
				return pod, false
			}
			if pod.DeletionTimestamp == nil {
				pod.DeletionTimestamp = &metav1.Time{Time: e.At}
			}
			return pod, true
		}
		return nil
	case "binding":
		var binding corev1.Binding
		if err := json.Unmarshal(n.RequestObject, &binding); err != nil {
			return fmt.Errorf("reading a binding: %w", err)
		}
		e.Change = func(before client.Object) (client.Object, bool) {
			pod := before.DeepCopyObject().(*corev1.Pod)
			pod.Spec.NodeName = binding.Target.Name
			return pod, true
		}
		return nil
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(n.ResponseObject, &kind); err != nil {
		return fmt.Errorf("reading what %s of %s has answered: %w", n.Verb, n.RequestURI, err)
	}
	object := e.Write.New
	if kind.Kind == "Status" {
		e.Gone = n.Verb == "delete"
		return nil
	}
	if err := json.Unmarshal(n.ResponseObject, object); err != nil {
		return fmt.Errorf("reading what %s of %s has answered: %w", n.Verb, n.RequestURI, err)
	}
	if n.ResponseStatus.Code == http.StatusCreated { // an apply may create
		e.Write.Verb = "create"
	}
	e.Gone = object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 || n.Verb == "delete" && object.GetDeletionTimestamp() == nil
	if _, pod := object.(*corev1.Pod); pod && e.Gone {
		grace := object.GetDeletionGracePeriodSeconds()
		e.Gone = grace == nil || *grace == 0
	}
	if e.Gone {
		return nil
	}
	var err error
	if e.version, err = strconv.ParseUint(object.GetResourceVersion(), 10, 64); err != nil {
		return fmt.Errorf("reading the version of %s: %w", n.RequestURI, err)
	}
	return nil
}

// add notes an event.
func (h *history) add(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	if e.Process != "" && e.Write != nil {
		h.writes++
		h.effects = append(h.effects, effect{e.At, e.Process})
	}
}

// call notes a call to AWS that is over, with what has become of instances.
func (h *history) call(asked *asked, instances []simaws.Glimpse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &entry{Event: sim.Event{At: time.Now(), Process: asked.process, Call: asked.body, Lived: asked.lived}}
	for _, in := range instances {
		if mark := in.State + fmt.Sprint(tagsOf(in)); h.last[in.ID] != mark {
			h.last[in.ID] = mark
			e.Instances = append(e.Instances, in)
		}
	}
	h.events = append(h.events, e)
	if asked.lists() {
		h.listed = e.At
	}
	if asked.writes() {
		h.calls++
		if asked.process == "" {
			h.unknown++
		}
		h.effects = append(h.effects, effect{e.At, e.Process})
	}
}

// judged shows the judge what happened before a time.
func (h *history) judged(until time.Time) {
	h.mu.Lock()
	slices.SortStableFunc(h.events, func(a, b *entry) int { return a.At.Compare(b.At) })
	n, _ := slices.BinarySearchFunc(h.events, until, func(e *entry, t time.Time) int { return e.At.Compare(t) })
	due := slices.Clone(h.events[:n])
	h.events = slices.Delete(h.events, 0, n)
	tell := h.tell
	h.tell = nil
	h.mu.Unlock()
	for _, do := range tell {
		do(h.judge)
	}
	inVersionOrder(due)
	for _, e := range due {
		h.judge.See(&e.Event)
	}
	h.seen += len(due)
}

// inVersionOrder puts the writes of each object into the order in which they took effect.
func inVersionOrder(events []*entry) {
	places := map[string][]int{}
	for i, e := range events {
		if e.version > 0 {
			places[e.object] = append(places[e.object], i)
		}
	}
	for _, at := range places {
		own := make([]*entry, len(at))
		for i, place := range at {
			own[i] = events[place]
		}
		slices.SortStableFunc(own, func(a, b *entry) int { return cmp.Compare(a.version, b.version) })
		for i, place := range at {
			own[i].At = events[place].At
			events[place] = own[i]
		}
	}
}

// follow reads the audit log and has the judge see it until ctx ends, and then all that is left.
func (h *history) follow(ctx context.Context, file string) error {
	log := &growing{name: file}
	defer log.close()
	for {
		ended := ctx.Err() != nil
		for {
			line, err := log.next()
			if err != nil {
				return err
			}
			if line == nil {
				break
			}
			if err := h.read(line); err != nil {
				return err
			}
		}
		if ended {
			h.judged(time.Now().Add(time.Hour))
			return nil
		}
		if err := h.doubted(time.Now().Add(-settle / 2)); err != nil {
			return err
		}
		h.judged(time.Now().Add(-settle))
		select {
		case <-ctx.Done():
			time.Sleep(time.Second) // for what is being written
		case <-time.After(time.Second):
		}
	}
}

// growing is a file that is written, and now and then put aside for a new one.
type growing struct {
	name string
	file *os.File
	from *bufio.Reader
	part []byte
}

// next is the next whole line, nil if there is none yet.
func (g *growing) next() ([]byte, error) {
	if g.file == nil {
		file, err := os.Open(g.name)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		g.file, g.from = file, bufio.NewReaderSize(file, 1<<20)
	}
	more, err := g.from.ReadBytes('\n')
	g.part = append(g.part, more...)
	switch {
	case err == nil:
		line := bytes.TrimSpace(g.part)
		g.part = nil
		return line, nil
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	now, err := os.Stat(g.name)
	mine, errMine := g.file.Stat()
	if err == nil && errMine == nil && !os.SameFile(now, mine) && len(g.part) == 0 {
		g.close()
		aside, err := filepath.Glob(strings.TrimSuffix(g.name, ".log") + "-*.log")
		for _, old := range aside {
			err = errors.Join(err, os.Remove(old))
		}
		if err != nil {
			return nil, err
		}
		return g.next()
	}
	return nil, nil
}

func (g *growing) close() {
	if g.file != nil {
		g.file.Close()
		g.file = nil
	}
}

// asked is a call to AWS on its way.
type asked struct {
	body    []byte
	process string
	lived   map[string]bool
}

// writes says whether the call changes instances.
func (a *asked) writes() bool {
	action, _, _ := bytes.Cut(bytes.TrimPrefix(a.body, []byte("Action=")), []byte("&"))
	return slices.Contains([]string{"CreateFleet", "TerminateInstances", "RebootInstances", "CreateTags"}, string(action))
}

// lists says whether the call lists all instances.
func (a *asked) lists() bool {
	return bytes.HasPrefix(a.body, []byte("Action=DescribeInstances&")) && bytes.Contains(a.body, []byte("&Filter.")) && !bytes.Contains(a.body, []byte("&InstanceId."))
}

// shows says whether the call may tell the controller something new about instances.
func (a *asked) shows() bool {
	return a.writes() || bytes.HasPrefix(a.body, []byte("Action=DescribeInstances&"))
}

// judgedTags are those that the rules look at.
var judgedTags = []string{karpv1.NodePoolLabelKey, cloud.BatchAnnotationKey, karpv1.Group + "/nodeclaim"}

func tagsOf(in simaws.Glimpse) (values []string) {
	for _, key := range judgedTags {
		value, ok := in.Tag(key)
		values = append(values, fmt.Sprint(value, ok))
	}
	return values
}

// glimpses are the instances of the account as they are now, to keep.
func glimpses(t *testing.T, aws *simaws.Sim) (out []simaws.Glimpse) {
	t.Helper()
	if err := aws.EachInstance(region, func(in simaws.Glimpse) {
		tags := map[string]string{}
		for _, key := range judgedTags {
			if value, ok := in.Tag(key); ok {
				tags[key] = value
			}
		}
		in.Tag = func(key string) (string, bool) {
			value, ok := tags[key]
			return value, ok
		}
		out = append(out, in)
	}); err != nil {
		t.Error(err)
	}
	return out
}

// next is when the controller first did something after a time: a process of it, or any other than one named with a minus.
func (h *history) next(since time.Time, process string) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first time.Time
	for i := len(h.effects) - 1; i >= 0; i-- {
		e := h.effects[i]
		if e.at.Before(since.Add(-time.Minute)) {
			break
		}
		other, without := strings.CutPrefix(process, "-")
		if e.at.After(since) && (process == "" || e.process == process || without && e.process != other) && (first.IsZero() || e.at.Before(first)) {
			first = e.at
		}
	}
	return first, !first.IsZero()
}

// listedAfter says whether all instances were listed after a time.
func (h *history) listedAfter(at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listed.After(at)
}

// tried counts how often the controller has tried a write.
func (h *history) tried(n *noted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conflicts == nil {
		h.conflicts = map[string]int{}
	}
	what := fmt.Sprint(n.Verb, *n.ObjectRef)
	switch code := n.ResponseStatus.Code; {
	case code == http.StatusConflict:
		h.conflicts[what]++
	case code < 300:
		h.repeats = append(h.repeats, h.conflicts[what])
		delete(h.conflicts, what)
	}
}

// looks gives it a way to read objects.
func (h *history) looks(look func(key types.NamespacedName, object client.Object) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look = look
}

// retries is how often each write was repeated, the least first.
func (h *history) retries() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.repeats))
}

// foreign tells that an instance is somebody else's, and restored that claims were forgotten.
func (h *history) foreign(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell = append(h.tell, func(j *sim.Judge) { j.Foreign(id) })
}

func (h *history) restored() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell = append(h.tell, (*sim.Judge).Restored)
}
