package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// differKind is a kind that both servers are asked about.
type differKind struct {
	name    string
	cluster bool
	object  client.Object
	list    client.ObjectList
	// specs are objects as JSON, the first of them good; merged into it are the others, good or bad.
	specs []string
	// patches are changes by merge patch.
	patches, statusPatches []string
	fields                 []string
	// lazy kinds get some of their defaults when they are read, so that the first write changes what is stored.
	lazy bool
}

func (k *differKind) new() client.Object {
	return reflect.New(reflect.TypeOf(k.object).Elem()).Interface().(client.Object)
}

func (k *differKind) custom() bool {
	_, ok := definitions()[mustGVK(k.object)]
	return ok
}

// metaPatches are changes of metadata, good and bad.
var metaPatches = []string{
	`{"metadata":{"labels":{"app":"x"}}}`, `{"metadata":{"labels":{"app":null,"b":"c"}}}`, `{"metadata":{"labels":null}}`,
	`{"metadata":{"annotations":{"example.com/a":"b"}}}`, `{"metadata":{"annotations":{"example.com/a":null}}}`, `{}`,
	`{"metadata":{"finalizers":["example.com/hold"]}}`, `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`, `{"metadata":{"finalizers":null}}`,
	`{"metadata":{"labels":{"not a key!":"x"}}}`, `{"metadata":{"labels":{"app":"not a value!"}}}`, `{"metadata":{"uid":"other"}}`,
	`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"generation":77}}`, `{"metadata":{"creationTimestamp":null}}`,
	`{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z"}}`, `{"metadata":{"deletionGracePeriodSeconds":5}}`, `{"metadata":{"finalizers":["not a finalizer!"]}}`,
	`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"","name":"n","uid":"u"}]}}`, `{"metadata":{"ownerReferences":null}}`,
	`{"metadata":{"labels":{"app":"y"},"annotations":{"k":"v"}},"nonsense":{"a":1}}`,
}

// metaSpecs are what is wrong or odd with new objects.
var metaSpecs = []string{
	`{"metadata":{"finalizers":["example.com/hold"]}}`, `{"metadata":{"labels":{"app":"x"},"finalizers":["example.com/hold"]}}`, `{"metadata":{"labels":{"app":"x"}}}`,
	`{"metadata":{"uid":"mine","generation":9,"deletionTimestamp":"2030-01-01T00:00:00Z","creationTimestamp":"2020-01-01T00:00:00Z"}}`,
	`{"metadata":{"resourceVersion":"5"}}`, `{"metadata":{"labels":{"bad key!":"x"}}}`, `{"metadata":{"name":"Not_A_Name"}}`, `{"metadata":{"name":""}}`,
	`{"metadata":{"name":"","generateName":"Bad Name"}}`, `{"metadata":{"finalizers":["orphan"]}}`, `{"metadata":{"finalizers":["foregroundDeletion"]}}`,
}

func (k *differKind) variant(v int) string {
	if v%3 == 0 || len(k.specs) == 1 {
		return metaSpecs[(v/3)%len(metaSpecs)]
	}
	if v%3 == 1 {
		return k.specs[0]
	}
	return k.specs[(v/3)%len(k.specs)]
}

// build makes a new object.
func (k *differKind) build(s *side, key types.NamespacedName, v int) client.Object {
	m := map[string]any{}
	mustJSON(k.specs[0], &m)
	mergeJSON(m, map[string]any{"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace}})
	var change map[string]any
	mustJSON(k.variant(v), &change)
	mergeJSON(m, change)
	gvk := mustGVK(k.object)
	m["apiVersion"], m["kind"] = gvk.GroupVersion().String(), gvk.Kind
	u := &unstructured.Unstructured{Object: m}
	typed := k.new()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, typed); err == nil && (v/7)%4 != 0 {
		typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if owner := s.version(&s.kinds[1], s.key(&s.kinds[1], v%3), 0); (v/11)%3 == 0 && owner != nil && k.name != s.kinds[1].name && !k.cluster {
			typed.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}})
		}
		return typed
	}
	return u
}

func (k *differKind) patch(status bool, v int) string {
	list := append(metaPatches[:len(metaPatches):len(metaPatches)], k.patches...)
	if status {
		list = append(metaPatches[:9:9], k.statusPatches...)
		if len(k.statusPatches) > 0 && v%3 > 0 {
			list = k.statusPatches
		}
	} else if len(k.patches) > 0 && v%2 == 0 {
		list = k.patches
	}
	return list[(v/6)%len(list)]
}

// change changes an object as its Go type.
func (k *differKind) change(_ *side, obj client.Object, v int) { apply(obj, k.patch(false, v)) }

func (k *differKind) setStatus(obj client.Object, v int) { apply(obj, k.patch(true, v)) }

// apply applies a patch to an object of a Go type if it fits; what is about metadata of the server's is left out.
func apply(obj client.Object, patch string) {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	own := obj.DeepCopyObject().(client.Object)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		var p map[string]any
		mustJSON(patch, &p)
		mergeJSON(u.Object, p)
	} else if merge(reflect.ValueOf(own), []byte(patch)) == nil {
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(own).Elem())
	}
	obj.SetUID(uid)
	obj.SetResourceVersion(version)
}

func (k *differKind) describe(a action) string {
	switch a.verb {
	case "create":
		return fmt.Sprintf("%d %s", a.variant, k.variant(a.variant))
	case "update", "patch":
		return fmt.Sprintf("%d %s", a.variant, k.patch(false, a.variant))
	case "status update", "status patch":
		return fmt.Sprintf("%d %s", a.variant, k.patch(true, a.variant))
	}
	return fmt.Sprint(a.variant)
}

func mustJSON(text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		panic(text + ": " + err.Error())
	}
}

func (s *side) list(ctx context.Context, k *differKind, a action) error {
	list := reflect.New(reflect.TypeOf(k.list).Elem()).Interface().(client.ObjectList)
	options := &client.ListOptions{Namespace: s.space}
	if k.cluster {
		options.Namespace = ""
	}
	selector := []string{"app=x", "app!=x,app", "app in (x,y),!b", ""}[a.lock%4]
	options.LabelSelector, _ = labels.Parse(selector)
	selectors := append([]string{"metadata.name=" + s.key(k, a.name).Name, "spec.nonsense=1", ""}, k.fields...)
	options.FieldSelector, _ = fields.ParseSelector(selectors[a.variant%len(selectors)])
	if err := s.c.List(ctx, list, options); err != nil {
		return err
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	var names []string
	for i := range items.Len() {
		item := items.Index(i).Addr().Interface().(client.Object)
		if strings.HasPrefix(item.GetName(), s.space+"-") || item.GetNamespace() == s.space {
			names = append(names, item.GetName()+" "+s.alias("uid", string(item.GetUID()))+item.GetObjectKind().GroupVersionKind().Kind)
		}
	}
	return &listed{names}
}

// listed hands what was listed on as if it were an error.
type listed struct{ names []string }

func (l *listed) Error() string { return strings.Join(l.names, ", ") }

// budget writes the status of a budget as the disruption controller might.
func (s *side) budget(ctx context.Context, key types.NamespacedName, a action) error {
	k := &s.kinds[2]
	now, ok := s.version(k, s.key(k, a.name), 0).(*policyv1.PodDisruptionBudget)
	if !ok {
		return nil
	}
	b := now.DeepCopy()
	b.Status.DisruptionsAllowed, b.Status.DesiredHealthy, b.Status.CurrentHealthy = int32(a.variant%3), int32(a.variant/3%2), int32(a.variant/6%3)
	if a.lock > 1 {
		b.Status.ObservedGeneration = b.Generation
	}
	err := s.c.Status().Update(ctx, b)
	if err == nil {
		s.remember(k, s.key(k, a.name), b)
	}
	return err
}

// differKinds are the kinds, the first three of them pods, ReplicaSets and budgets.
func differKinds(t *testing.T) []differKind {
	template := `{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`
	kinds := []differKind{
		{
			name: "Pod", object: &corev1.Pod{}, list: &corev1.PodList{},
			specs: []string{
				`{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m"}}}]}}`,
				`{"spec":{"nodeName":"n1"}}`, `{"spec":{"nodeName":"n1","terminationGracePeriodSeconds":5}}`, `{"spec":{"nodeName":"n2","terminationGracePeriodSeconds":-4}}`,
				`{"spec":{"schedulingGates":[{"name":"example.com/wait"}]}}`, `{"spec":{"tolerations":[{"operator":"Exists"}],"nodeSelector":{"a":"b"}}}`,
				`{"spec":{"containers":[]}}`, `{"spec":{"containers":[{"name":"c"}]}}`, `{"spec":{"containers":[{"name":"c","image":"i:latest","resources":{"limits":{"cpu":"1","memory":"1Gi"}},"ports":[{"containerPort":80}]}]}}`,
				`{"status":{"phase":"Running"},"spec":{"nodeName":"n1"}}`, `{"spec":{"initContainers":[{"name":"i","image":"reg.example.com:5000/i@sha256:0123456789012345678901234567890123456789012345678901234567890123","restartPolicy":"Always"}]}}`,
			},
			patches: []string{
				`{"spec":{"containers":[{"name":"c","image":"j"}]}}`, `{"spec":{"nodeName":"n3"}}`, `{"spec":{"schedulingGates":null}}`, `{"spec":{"activeDeadlineSeconds":100}}`, `{"spec":{"activeDeadlineSeconds":50}}`,
				`{"spec":{"tolerations":[]}}`, `{"spec":{"nodeSelector":{"a":"c"}}}`, `{"spec":{"terminationGracePeriodSeconds":3}}`, `{"status":{"phase":"Running"}}`, `{"spec":{"containers":null}}`, `{"spec":{"schedulingGates":[{"name":"example.com/more"}]}}`,
				`{"spec":{"priority":null}}`, `{"spec":{"hostNetwork":"yes"}}`,
			},
			statusPatches: []string{
				`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, `{"status":{"phase":"Running"}}`,
				`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}`, `{"status":{"phase":"Succeeded"}}`, `{"status":{"phase":"Failed","reason":"Evicted"}}`, `{"status":{"nominatedNodeName":"n1"}}`,
				`{"status":{"nominatedNodeName":null}}`, `{"spec":{"nodeName":"n4"},"status":{"qosClass":null}}`, `{"metadata":{"ownerReferences":null,"labels":{"s":"t"}},"status":{"message":"m"}}`,
			},
			fields: []string{"spec.nodeName=n1", "status.phase=Running", "spec.nodeName!=,status.phase!=Failed", "status.nominatedNodeName=n1"},
		},
		{
			name: "ReplicaSet", object: &appsv1.ReplicaSet{}, list: &appsv1.ReplicaSetList{},
			specs: []string{
				`{"spec":{"selector":{"matchLabels":{"app":"x"}},"template":` + template + `}}`, `{"spec":{"replicas":3}}`, `{"spec":{"replicas":-1}}`, `{"spec":{"selector":null}}`, `{"spec":{"selector":{"matchLabels":{"app":"z"}}}}`,
				`{"status":{"replicas":5}}`,
			},
			patches:       []string{`{"spec":{"replicas":2}}`, `{"spec":{"replicas":null}}`, `{"spec":{"replicas":-2}}`, `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, `{"spec":{"selector":{"matchLabels":{"app":"y"}}}}`, `{"status":{"replicas":1}}`},
			statusPatches: []string{`{"status":{"replicas":2,"readyReplicas":1}}`, `{"spec":{"replicas":9},"status":{"replicas":1,"observedGeneration":1}}`},
		},
		{
			name: "PodDisruptionBudget", object: &policyv1.PodDisruptionBudget{}, list: &policyv1.PodDisruptionBudgetList{},
			specs: []string{
				`{"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}`, `{"spec":{"maxUnavailable":1}}`, `{"spec":{"minAvailable":null,"maxUnavailable":"50%"}}`, `{"spec":{"minAvailable":"101%"}}`, `{"spec":{"minAvailable":-1}}`,
				`{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`, `{"spec":{"unhealthyPodEvictionPolicy":"Perhaps"}}`, `{"spec":{"selector":{"matchLabels":{"app":"b a d"}}}}`, `{"spec":{"minAvailable":"ten"}}`,
			},
			patches: []string{`{"spec":{"minAvailable":2}}`, `{"spec":{"minAvailable":null,"maxUnavailable":0}}`, `{"spec":{"minAvailable":"x%"}}`, `{"status":{"disruptionsAllowed":3}}`},
			statusPatches: []string{
				`{"status":{"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2,"observedGeneration":1}}`, `{"status":{"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1,"observedGeneration":1}}`,
				`{"status":{"disruptionsAllowed":2,"currentHealthy":3,"desiredHealthy":1,"expectedPods":3,"observedGeneration":9}}`,
			},
		},
		{
			name: "Node", object: &corev1.Node{}, list: &corev1.NodeList{}, cluster: true,
			specs: []string{
				`{"status":{"capacity":{"cpu":"2"}}}`, `{"spec":{"providerID":"aws:///a/i-1"}}`, `{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"k","effect":"NoExecute"}]}}`, `{"spec":{"unschedulable":true}}`,
				`{"spec":{"providerID":"aws:///a/i-2"},"status":{"capacity":{"cpu":"4"},"allocatable":{"cpu":"3"},"conditions":[{"type":"Ready","status":"True"}]}}`,
			},
			patches: []string{
				`{"spec":{"providerID":"aws:///a/i-1"}}`, `{"spec":{"providerID":"aws:///a/i-9"}}`, `{"spec":{"providerID":null}}`, `{"spec":{"taints":[{"key":"karpenter.sh/disrupted","effect":"NoSchedule"}]}}`, `{"spec":{"taints":null}}`,
				`{"spec":{"unschedulable":true}}`, `{"spec":{"unschedulable":null}}`, `{"status":{"capacity":{"cpu":"8"}}}`,
			},
			statusPatches: []string{`{"status":{"capacity":{"cpu":"8"}}}`, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, `{"status":{"allocatable":{"cpu":"1"}},"spec":{"providerID":"aws:///a/i-8"}}`, `{"spec":{"taints":null},"status":{"addresses":[{"type":"Hostname","address":"h"}]}}`},
			fields:        []string{"spec.unschedulable=true"},
		},
		{
			name: "Deployment", object: &appsv1.Deployment{}, list: &appsv1.DeploymentList{},
			specs:         []string{`{"spec":{"selector":{"matchLabels":{"app":"x"}},"template":` + template + `}}`, `{"spec":{"replicas":2}}`, `{"spec":{"strategy":{"type":"Recreate"}}}`, `{"spec":{"selector":null}}`, `{"spec":{"replicas":-1}}`},
			patches:       []string{`{"spec":{"replicas":3}}`, `{"spec":{"paused":true}}`, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`, `{"spec":{"selector":{"matchLabels":{"app":"y"}}}}`},
			statusPatches: []string{`{"status":{"replicas":2}}`, `{"metadata":{"labels":{"q":"r"},"annotations":{"q":"r"}},"status":{"replicas":1}}`},
		},
		{
			name: "DaemonSet", object: &appsv1.DaemonSet{}, list: &appsv1.DaemonSetList{},
			specs:         []string{`{"spec":{"selector":{"matchLabels":{"app":"x"}},"template":` + template + `}}`, `{"spec":{"updateStrategy":{"type":"OnDelete"}}}`, `{"spec":{"selector":null}}`},
			patches:       []string{`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, `{"spec":{"minReadySeconds":5}}`},
			statusPatches: []string{`{"status":{"desiredNumberScheduled":2}}`},
		},
		{
			name: "Lease", object: &coordinationv1.Lease{}, list: &coordinationv1.LeaseList{},
			specs:   []string{`{"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}`, `{"spec":{"leaseDurationSeconds":0}}`, `{"spec":{"renewTime":"2026-01-01T00:00:00.123456Z"}}`, `{"spec":{"leaseTransitions":-1}}`, `{"spec":null}`},
			patches: []string{`{"spec":{"holderIdentity":"you"}}`, `{"spec":{"renewTime":"2026-01-01T00:00:05.000000Z"}}`, `{"spec":{"leaseDurationSeconds":-5}}`, `{"spec":{"leaseTransitions":3}}`},
		},
		{
			name: "CSINode", object: &storagev1.CSINode{}, list: &storagev1.CSINodeList{}, cluster: true,
			specs:   []string{`{"spec":{"drivers":[]}}`, `{"spec":{"drivers":[{"name":"ebs.csi.aws.com","nodeID":"i-1","topologyKeys":["z"],"allocatable":{"count":5}}]}}`},
			patches: []string{`{"spec":{"drivers":[{"name":"ebs.csi.aws.com","nodeID":"i-1","topologyKeys":["z"],"allocatable":{"count":5}}]}}`, `{"spec":{"drivers":[]}}`},
		},
		{
			name: "VolumeAttachment", object: &storagev1.VolumeAttachment{}, list: &storagev1.VolumeAttachmentList{}, cluster: true,
			specs:         []string{`{"spec":{"attacher":"ebs.csi.aws.com","nodeName":"n1","source":{"persistentVolumeName":"pv-1"}}}`, `{"spec":{"nodeName":""}}`, `{"spec":{"attacher":""}}`, `{"spec":{"source":{"persistentVolumeName":null}}}`, `{"status":{"attached":true}}`},
			patches:       []string{`{"spec":{"nodeName":"n2"}}`, `{"status":{"attached":true}}`},
			statusPatches: []string{`{"status":{"attached":true}}`, `{"status":{"attached":false,"detachError":{"message":"m"}},"spec":{"nodeName":"n7"}}`},
		},
		{
			name: "ConfigMap", object: &corev1.ConfigMap{}, list: &corev1.ConfigMapList{},
			specs: []string{`{"data":{"a":"b"}}`, `{"data":{"c":"d"}}`}, patches: []string{`{"data":{"a":"c"}}`, `{"data":null}`, `{"data":{"x":null}}`},
		},
		{
			name: "Event", object: &corev1.Event{}, list: &corev1.EventList{},
			specs:   []string{`{"reason":"R","message":"m","type":"Normal","count":1,"involvedObject":{"kind":"Pod","name":"a"}}`},
			patches: []string{`{"count":2}`, `{"message":"n"}`, `{"lastTimestamp":"2026-01-01T00:00:00Z"}`},
			fields:  []string{"reason=R", "involvedObject.name=a,type=Normal"},
		},
		{
			name: "PersistentVolumeClaim", object: &corev1.PersistentVolumeClaim{}, list: &corev1.PersistentVolumeClaimList{}, lazy: true,
			specs:         []string{`{"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"s","resources":{"requests":{"storage":"1Gi"}}}}`, `{"status":{"phase":"Bound"}}`},
			statusPatches: []string{`{"status":{"phase":"Bound"}}`},
		},
		{
			name: "PersistentVolume", object: &corev1.PersistentVolume{}, list: &corev1.PersistentVolumeList{}, cluster: true,
			specs:         []string{`{"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"csi":{"driver":"ebs.csi.aws.com","volumeHandle":"vol-1"}}}`},
			statusPatches: []string{`{"status":{"phase":"Bound"}}`},
		},
		{
			name: "StorageClass", object: &storagev1.StorageClass{}, list: &storagev1.StorageClassList{}, cluster: true,
			specs: []string{`{"provisioner":"ebs.csi.aws.com"}`, `{"volumeBindingMode":"WaitForFirstConsumer","reclaimPolicy":"Retain"}`},
		},
		{
			name: "PriorityClass", object: &schedulingv1.PriorityClass{}, list: &schedulingv1.PriorityClassList{}, cluster: true,
			specs: []string{`{"value":5}`, `{"preemptionPolicy":"Never"}`}, patches: []string{`{"description":"d"}`},
		},
		{name: "NodePool", object: &karpv1.NodePool{}, list: &karpv1.NodePoolList{}, cluster: true, statusPatches: []string{
			`{"status":{"nodes":3,"resources":{"cpu":"5"}}}`, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, `{"status":{"conditions":[{"type":"Ready"}]}}`,
			`{"status":{"nodes":-1}}`, `{"status":{"resources":{"cpu":"lots"}}}`, `{"status":null}`, `{"spec":{"weight":7},"status":{"nodes":1}}`,
		}},
		{name: "NodeClaim", object: &karpv1.NodeClaim{}, list: &karpv1.NodeClaimList{}, cluster: true, statusPatches: []string{
			`{"status":{"providerID":"aws:///a/i-1","capacity":{"cpu":"4"}}}`, `{"status":{"conditions":[{"type":"Launched","status":"True","reason":"Launched","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, `{"status":{"conditions":[{"type":"Launched","status":"Perhaps","reason":"r","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			`{"status":{"nodeName":"n1","lastPodEventTime":"2026-01-01T00:00:00Z"}}`, `{"status":{"providerID":5}}`, `{"status":{"unknown":"x"}}`, `{"status":null}`,
		}},
		{name: "EC2NodeClass", object: &awsv1.EC2NodeClass{}, list: &awsv1.EC2NodeClassList{}, cluster: true, statusPatches: []string{
			`{"status":{"instanceProfile":"p"}}`, `{"status":{"subnets":[{"id":"subnet-1","zone":"a"}]}}`, `{"status":{"subnets":[{"id":5}]}}`, `{"status":{"amis":[{"id":"ami-1","requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["arm64"]}]}]}}`, `{"status":null}`,
			`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		}},
	}
	for i := range kinds {
		if kinds[i].custom() {
			kinds[i].examples(t)
		}
	}
	return kinds
}

// examples are those by which our kinds' rules are tested.
func (k *differKind) examples(t *testing.T) {
	files, err := filepath.Glob("../../../test/validation/testdata/" + strings.ToLower(k.name) + "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples of %s: %v", k.name, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		var table struct {
			Base  map[string]any
			Cases []struct{ Create, Update map[string]any }
		}
		must(t, yaml.Unmarshal(data, &table))
		if len(k.specs) == 0 {
			k.specs = append(k.specs, toJSON(table.Base))
		}
		for _, c := range table.Cases {
			if c.Create != nil {
				k.specs = append(k.specs, toJSON(c.Create))
				k.patches = append(k.patches, toJSON(c.Create))
			}
			if c.Update != nil {
				k.patches = append(k.patches, toJSON(c.Update))
			}
		}
	}
}

func toJSON(x any) string {
	data, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func mustGVK(obj client.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(obj, scheme())
	if err != nil {
		panic(err)
	}
	return gvk
}
