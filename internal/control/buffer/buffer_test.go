package buffer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/internal/control/buffer"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

// patience is how long a test waits for what takes milliseconds.
const patience = 20 * time.Second

// bench is a reconciler that runs, with the mirror that it feeds.
type bench struct {
	*buffer.Reconciler
	t      *testing.T
	mirror *state.Mirror
	series *prometheus.Registry
	space  string

	mu    sync.Mutex
	woken int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	m := rig.Manager(t, cluster)
	b := &bench{t: t, series: prometheus.NewRegistry(), mirror: state.NewMirror(state.MirrorOptions{Now: time.Now}), space: strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-"))}
	b.space = b.space[:min(len(b.space), 60)]
	b.Reconciler = &buffer.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Mirror: b.mirror, Clock: clock.RealClock{}, Meter: meter.New(b.series, meter.Cloud{}), Log: slog.New(slog.DiscardHandler),
		Wake: func(types.UID) { b.mu.Lock(); b.woken++; b.mu.Unlock() },
	}
	if err := b.Register(m); err != nil {
		t.Fatal(err)
	}
	rig.Run(t, m)
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.space}})
	return b
}

func (b *bench) create(obj client.Object) {
	b.t.Helper()
	if err := cluster.Client.Create(b.t.Context(), obj); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.space, Name: name}
}

func (b *bench) template(labels map[string]string, requests string) corev1.PodTemplateSpec {
	list := corev1.ResourceList{}
	if requests != "" {
		list[corev1.ResourceCPU] = resource.MustParse(requests)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x", Resources: corev1.ResourceRequirements{Requests: list}}}},
	}
}

func (b *bench) buffer(name string, spec bufferv1.CapacityBufferSpec) *bufferv1.CapacityBuffer {
	b.t.Helper()
	o := &bufferv1.CapacityBuffer{ObjectMeta: b.meta(name), Spec: spec}
	b.create(o)
	return o
}

// await waits until a buffer is as wanted, and returns it.
func (b *bench) await(name string, wanted func(*bufferv1.CapacityBuffer) bool) *bufferv1.CapacityBuffer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	watcher, err := cluster.Client.Watch(ctx, &bufferv1.CapacityBufferList{}, client.InNamespace(b.space), client.MatchingFields{"metadata.name": name})
	if err != nil {
		b.t.Fatal(err)
	}
	defer watcher.Stop()
	var last *bufferv1.CapacityBuffer
	for event := range watcher.ResultChan() {
		if o, ok := event.Object.(*bufferv1.CapacityBuffer); ok {
			if last = o; wanted(o) {
				return o
			}
		}
	}
	b.t.Fatalf("buffer %s is %+v", name, last)
	return nil
}

func replicas(n int32) func(*bufferv1.CapacityBuffer) bool {
	return func(b *bufferv1.CapacityBuffer) bool { return b.Status.Replicas != nil && *b.Status.Replicas == n }
}

func is(kind string, status metav1.ConditionStatus, reason, message string) func(*bufferv1.CapacityBuffer) bool {
	return func(b *bufferv1.CapacityBuffer) bool {
		c := b.Condition(kind)
		return c != nil && c.Status == status && c.Reason == reason && strings.Contains(c.Message, message) && c.ObservedGeneration == b.Generation
	}
}

func unready(reason, message string) func(*bufferv1.CapacityBuffer) bool {
	return is(bufferv1.ConditionReadyForProvisioning, metav1.ConditionFalse, reason, message)
}

// spare waits until the mirror shows so many spare pods.
func (b *bench) spare(n int) {
	b.t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(5 * time.Millisecond) {
		if len(b.spares()) == n {
			return
		}
	}
	b.t.Fatalf("the mirror shows %d spare pods, not %d", len(b.spares()), n)
}

// spares are the classes of the spare pods of this test's buffers; others have left theirs in the cluster.
func (b *bench) spares() (out []*world.Class) {
	w := b.mirror.View().World
	for _, p := range w.Spare {
		if c := w.Classes[p.Class]; c.Namespace == b.space {
			out = append(out, c)
		}
	}
	return out
}

func ref(name string) *bufferv1.LocalObjectRef { return &bufferv1.LocalObjectRef{Name: name} }

func TestP110_A49_PodTemplateIsResolved(t *testing.T) {
	b := newBench(t)
	tmpl := &corev1.PodTemplate{ObjectMeta: b.meta("shape"), Template: b.template(map[string]string{"app": "web"}, "500m")}
	b.create(tmpl)
	b.buffer("web", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("shape"), Replicas: new(int32(3))})
	got := b.await("web", is(bufferv1.ConditionReadyForProvisioning, metav1.ConditionTrue, bufferv1.ReasonResolved, "3 pods"))
	if *got.Status.Replicas != 3 || got.Status.PodTemplateRef.Name != "shape" || *got.Status.ProvisioningStrategy != bufferv1.ActiveCapacity || *got.Status.PodTemplateGeneration != tmpl.Generation {
		t.Errorf("A51: status is %+v", got.Status)
	}
	b.spare(3)
	c := b.spares()[0]
	if app, _ := c.Labels.Get("app"); c.Priority != -1<<31 || c.Buffer != b.space+"/web" || len(c.Labels) > 0 && app != "web" {
		t.Errorf("P111: class %+v", c)
	}

	// Template and buffer may change.
	tmpl.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	if err := cluster.Client.Update(t.Context(), tmpl); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if b.spares()[0].Requests.Get(world.CPU) == 2000 {
			break
		}
		if time.Since(begin) > patience {
			t.Fatal("the mirror does not show the new template")
		}
	}
	if err := cluster.Client.Delete(t.Context(), tmpl); err != nil {
		t.Fatal(err)
	}
	b.await("web", unready(bufferv1.ReasonPodTemplateNotFound, `there is no PodTemplate "shape"`))
	b.spare(0) // N11: un-resolving releases the room
}

func TestA50_B10_TheLargerOfReplicasAndPercentage(t *testing.T) {
	b := newBench(t)
	labels := map[string]string{"app": "api"}
	d := &appsv1.Deployment{ObjectMeta: b.meta("api"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(25)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: b.template(labels, "1"),
	}}
	b.create(d)
	api := &bufferv1.ScalableRef{Kind: "Deployment", Name: "api"}
	for _, c := range []struct {
		name string
		spec bufferv1.CapacityBufferSpec
		want int32
	}{
		{"percent", bufferv1.CapacityBufferSpec{ScalableRef: api, Percentage: new(int32(10))}, 3}, // 2.5 rounded up
		{"floor", bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: "api"}, Percentage: new(int32(1))}, 1},
		{"larger", bufferv1.CapacityBufferSpec{ScalableRef: api, Percentage: new(int32(10)), Replicas: new(int32(7))}, 7},
		{"capped", bufferv1.CapacityBufferSpec{ScalableRef: api, Percentage: new(int32(100)), Limits: corev1.ResourceList{"cpu": resource.MustParse("4500m")}}, 4},
		{"limits", bufferv1.CapacityBufferSpec{ScalableRef: api, Limits: corev1.ResourceList{"cpu": resource.MustParse("6"), "nvidia.com/gpu": resource.MustParse("1")}}, 6},
	} {
		b.buffer(c.name, c.spec)
		b.await(c.name, replicas(c.want))
	}
	b.spare(3 + 1 + 7 + 4 + 6)

	// N11: the workload is watched.
	begin := time.Now()
	if err := cluster.Client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":40}}`))); err != nil {
		t.Fatal(err)
	}
	b.await("percent", replicas(4))
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("status was written %s after the change", took)
	}
}

func TestP110_W66_EveryKindOfWorkload(t *testing.T) {
	b := newBench(t)
	labels := map[string]string{"app": "x"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	job := b.template(labels, "1")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	rc := b.template(labels, "1")
	b.create(&appsv1.StatefulSet{ObjectMeta: b.meta("x"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(10)), Selector: selector, Template: b.template(labels, "1")}})
	b.create(&appsv1.ReplicaSet{ObjectMeta: b.meta("x"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(20)), Selector: selector, Template: b.template(labels, "1")}})
	b.create(&corev1.ReplicationController{ObjectMeta: b.meta("x"), Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(30)), Selector: labels, Template: &rc}})
	b.create(&batchv1.Job{ObjectMeta: b.meta("x"), Spec: batchv1.JobSpec{Parallelism: new(int32(40)), Template: job}})
	for kind, want := range map[string]int32{"StatefulSet": 1, "ReplicaSet": 2, "ReplicationController": 3, "Job": 4} {
		name := strings.ToLower(kind)
		b.buffer(name, bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{Kind: kind, Name: "x"}, Percentage: new(int32(10))})
		b.await(name, replicas(want))
	}
	b.spare(10)
}

// A kind with a scale subresource says how many pods it has, and its pods what they look like.
func TestW66_AnyKindThatCanBeScaled(t *testing.T) {
	b := newBench(t)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "rollouts.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "rollouts", Singular: "rollout", Kind: "Rollout", ListKind: "RolloutList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: new(".status.selector")},
			},
		}},
	}}
	b.create(crd)
	rollout := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(30)}}}
	rollout.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rollout"})
	rollout.SetNamespace(b.space)
	rollout.SetName("shop")
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := cluster.Client.Create(t.Context(), rollout)
		if err == nil {
			break
		}
		if time.Since(begin) > patience {
			t.Fatal(err)
		}
	}
	rollout.Object["status"] = map[string]any{"replicas": int64(30), "selector": "app=shop"}
	if err := cluster.Client.Status().Update(t.Context(), rollout); err != nil {
		t.Fatal(err)
	}
	spec := bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{APIGroup: "example.com", Kind: "Rollout", Name: "shop"}, Percentage: new(int32(10))}
	o := b.buffer("shop", spec)
	b.await("shop", unready(bufferv1.ReasonResolutionFailed, "Rollout shop has no pods yet"))
	t1 := b.template(map[string]string{"app": "shop"}, "3")
	pod := &corev1.Pod{ObjectMeta: b.meta("shop-1"), Spec: t1.Spec}
	pod.Labels = t1.Labels
	b.create(pod)
	o.Spec.Percentage = new(int32(20)) // kinds that are not watched are looked at now and then; the buffer's own change is seen at once
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		o.Spec.Percentage = new(*o.Spec.Percentage + 1)
		if err := cluster.Client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got := b.spares(); len(got) > 0 {
			if cpu := got[0].Requests.Get(world.CPU); cpu != 3000 {
				t.Errorf("spare pods request %d millicores", cpu)
			}
			return
		}
		if time.Since(begin) > patience {
			t.Fatal("no spare pods")
		}
	}
}

func TestA49_A51_BadBuffersSayWhatWouldBeRight(t *testing.T) {
	b := newBench(t)
	b.create(&corev1.PodTemplate{ObjectMeta: b.meta("nothing"), Template: b.template(nil, "")})
	b.create(&corev1.PodTemplate{ObjectMeta: b.meta("good"), Template: b.template(nil, "1")})
	for _, c := range []struct {
		name            string
		spec            bufferv1.CapacityBufferSpec
		reason, message string
	}{
		{"neither", bufferv1.CapacityBufferSpec{Replicas: new(int32(1))}, bufferv1.ReasonResolutionFailed, "set spec.podTemplateRef or spec.scalableRef"},
		{"no-template", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("gone"), Replicas: new(int32(1))}, bufferv1.ReasonPodTemplateNotFound, `spec.podTemplateRef.name: there is no PodTemplate "gone"`},
		{"no-workload", bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{Kind: "Deployment", Name: "gone"}, Replicas: new(int32(1))}, bufferv1.ReasonScalableRefNotFound, `spec.scalableRef: there is no Deployment "gone"`},
		{"no-kind", bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{APIGroup: "nowhere.io", Kind: "Thing", Name: "x"}, Replicas: new(int32(1))}, bufferv1.ReasonResolutionFailed, "serves no kind Thing"},
		{"no-scale", bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{APIGroup: "", Kind: "ConfigMap", Name: "kube-root-ca.crt"}, Replicas: new(int32(1))}, bufferv1.ReasonScalableRefNotFound, "no scale subresource"},
		{"no-namespace", bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{APIGroup: "karpenter.sh", Kind: "NodePool", Name: "x"}, Replicas: new(int32(1))}, bufferv1.ReasonResolutionFailed, "spec.scalableRef: NodePool is not in a namespace"},
		{"no-requests", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("nothing"), Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}, bufferv1.ReasonResolutionFailed, "spec.limits bounds cpu, of which the pods request nothing"},
		{"no-number", bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{Kind: "Job", Name: "gone"}}, bufferv1.ReasonScalableRefNotFound, "Job"},
	} {
		b.buffer(c.name, c.spec)
		b.await(c.name, unready(c.reason, c.message))
		b.await(c.name, is(bufferv1.ConditionProvisioning, metav1.ConditionFalse, bufferv1.ReasonNotReadyForProvisioning, ""))
	}
	both := &bufferv1.CapacityBuffer{ObjectMeta: b.meta("both"), Spec: bufferv1.CapacityBufferSpec{PodTemplateRef: ref("good"), ScalableRef: &bufferv1.ScalableRef{Kind: "Job", Name: "x"}, Replicas: new(int32(1))}}
	if err := cluster.Client.Create(t.Context(), both); err == nil || !strings.Contains(err.Error(), "podTemplateRef and scalableRef cannot be used together") {
		t.Errorf("both references: %v", err)
	}
	// None of them is in the way of one that is right, and one that comes to nothing says so.
	b.buffer("good", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("good"), Replicas: new(int32(2))})
	b.await("good", replicas(2))
	b.buffer("zero", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("good"), Replicas: new(int32(0))})
	b.await("zero", is(bufferv1.ConditionProvisioning, metav1.ConditionFalse, bufferv1.ReasonBufferEmpty, ""))
	b.spare(2)
	// A workload that comes later is seen.
	labels := map[string]string{"app": "late"}
	b.create(&appsv1.Deployment{ObjectMeta: b.meta("gone"), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: b.template(labels, "1")}})
	b.await("no-workload", replicas(1))
}

func TestP112_HowABufferFares(t *testing.T) {
	b := newBench(t)
	b.create(&corev1.PodTemplate{ObjectMeta: b.meta("shape"), Template: b.template(nil, "1")})
	b.buffer("web", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("shape"), Replicas: new(int32(10))})
	b.await("web", replicas(10))
	name := b.space + "/web"
	b.Fare([]provision.Fared{{Buffer: name, Fits: 4, New: 5, Refused: 1, Why: []why.Reason{why.New(why.Limit, "limits of pool general")}}})
	b.await("web", is(bufferv1.ConditionProvisioning, metav1.ConditionFalse, bufferv1.ReasonRequiresNewCapacity, "room for 4 of 10 spare pods; nodes are launched for 5; 1 have room nowhere: limits of pool general"))
	b.await("web", is(bufferv1.ConditionLimitedByQuotas, metav1.ConditionTrue, bufferv1.ReasonLimitsReached, "limits of pool general"))
	if got := rig.Count(t, b.series, meter.BufferSparePods, "state", "fits", "name", "web"); got != 4 {
		t.Errorf("the metric says that %v spare pods fit", got)
	}
	b.Fare([]provision.Fared{{Buffer: name, Fits: 10}})
	b.await("web", is(bufferv1.ConditionProvisioning, metav1.ConditionTrue, bufferv1.ReasonFitsExistingCapacity, "10 spare pods"))
	b.await("web", is(bufferv1.ConditionLimitedByQuotas, metav1.ConditionFalse, bufferv1.ReasonWithinLimits, ""))
}

func TestN11_P3_A48_DeletionReleasesAndWakes(t *testing.T) {
	b := newBench(t)
	b.create(&corev1.PodTemplate{ObjectMeta: b.meta("shape"), Template: b.template(nil, "1")})
	o := b.buffer("web", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("shape"), Replicas: new(int32(4))})
	other := b.buffer("strategy", bufferv1.CapacityBufferSpec{PodTemplateRef: ref("shape"), Replicas: new(int32(4)), ProvisioningStrategy: new("example.com/other")})
	b.spare(4)
	b.mu.Lock()
	woken := b.woken
	b.mu.Unlock()
	if woken == 0 {
		t.Error("nobody was woken for a new buffer")
	}
	if err := cluster.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	b.spare(0)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.woken <= woken {
		t.Error("nobody was woken for a buffer that is gone")
	}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || len(other.Status.Conditions) > 0 {
		t.Errorf("A48: a buffer of another strategy has status %+v (%v)", other.Status, err)
	}
}

// With a thousand spare pods a buffer's status is written within two seconds of a change.
func TestA51_StatusIsWrittenWithinTwoSeconds(t *testing.T) {
	b := newBench(t)
	b.create(&corev1.PodTemplate{ObjectMeta: b.meta("shape"), Template: b.template(nil, "1")})
	for i := range 10 {
		b.buffer(fmt.Sprintf("b%d", i), bufferv1.CapacityBufferSpec{PodTemplateRef: ref("shape"), Replicas: new(int32(100))})
	}
	b.spare(1000)
	o := &bufferv1.CapacityBuffer{ObjectMeta: b.meta("b7")}
	begin := time.Now()
	if err := cluster.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":150}}`))); err != nil {
		t.Fatal(err)
	}
	b.await("b7", replicas(150))
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("status was written %s after the change", took)
	} else {
		t.Logf("status was written %s after the change", took)
	}
	b.spare(1050)
}
