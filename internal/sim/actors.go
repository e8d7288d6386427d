package sim

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
)

// foreignKey is on what somebody else has put on our objects: labels, annotations, taints.
const foreignKey = "example.com/foreign"

// watched are the kinds whose watches can be disturbed.
var watched = []string{"NodeClaim", "Node", "Pod", "NodePool"}

// disturbWatch has the watch of a kind cut or its last event repeated.
func (w *World) disturbWatch(how, kind string) {
	gvk := corev1.SchemeGroupVersion.WithKind(kind)
	if kind == "NodeClaim" || kind == "NodePool" {
		gvk = schema.GroupVersionKind{Group: karpv1.Group, Version: "v1", Kind: kind}
	}
	r := w.replica
	if r == nil || r.dead {
		return
	}
	if how == "relist" {
		r.cache.Relist(gvk)
	} else {
		r.cache.Redeliver(gvk)
	}
}

// one is one of those that are there, drawn; "" if there is none.
func (w *World) one(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[w.draw.IntN(len(of))]
}

// running are the ids of our instances that run and have the lifecycle, or any.
func (w *World) running(lifecycle string) (ids []string) {
	w.each(func(in simaws.Glimpse) {
		if in.State == "running" && (lifecycle == "" || in.Lifecycle == lifecycle) {
			ids = append(ids, in.ID)
		}
	})
	return ids
}

// kill ends an instance behind the controller's back.
func (w *World) kill() error {
	id := w.one(w.running(""))
	if id == "" {
		return nil
	}
	w.note("instance %s is killed", id)
	w.killed[id] = true
	return w.aws.Do(region, "ec2", url.Values{"Action": {"TerminateInstances"}, "InstanceId.1": {id}})
}

// notice has EC2 take a spot instance back.
func (w *World) notice() error {
	id := w.one(w.running("spot"))
	if id == "" {
		return nil
	}
	w.note("instance %s is taken back", id)
	w.killed[id] = true
	return w.aws.Interrupt(region, id)
}

// deleteOne has a user delete a claim or a node that is ours.
func (w *World) deleteOne(kind string) error {
	var names []string
	if kind == "node" {
		w.server.Each(&corev1.Node{}, func(o client.Object) {
			if o.GetLabels()[karpv1.NodePoolLabelKey] != "" && o.GetDeletionTimestamp() == nil {
				names = append(names, o.GetName())
			}
		})
		if name := w.one(among(names, w.here.nodes)); name != "" {
			return w.owner.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return nil
	}
	w.server.Each(&karpv1.NodeClaim{}, func(o client.Object) {
		if o.GetDeletionTimestamp() == nil {
			names = append(names, o.GetName())
		}
	})
	if name := w.one(among(names, w.here.claims)); name != "" {
		return w.owner.Delete(context.Background(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return nil
}

// drift selects newer images.
func (w *World) drift() error {
	var classes awsv1.EC2NodeClassList
	if err := w.owner.List(context.Background(), &classes); err != nil {
		return err
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		if class.Name == poisonName {
			continue
		}
		before := class.DeepCopy()
		class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
		if err := w.owner.Patch(context.Background(), class, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// protect puts the annotation on a running pod, as late as can be: the controller may have decided already.
func (w *World) protect() error {
	var pods, here []string
	w.server.Each(&corev1.Pod{}, func(o client.Object) {
		if pod := o.(*corev1.Pod); pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Namespace == "default" {
			if pods = append(pods, pod.Name); slices.Contains(w.here.nodes, pod.Spec.NodeName) {
				here = append(here, pod.Name)
			}
		}
	})
	name := w.one(among(pods, here))
	if name == "" {
		return nil
	}
	pod := &corev1.Pod{}
	if err := w.owner.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	w.protected[pod.UID] = w.loop.now
	before := pod.DeepCopy()
	pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	return client.IgnoreNotFound(w.owner.Patch(context.Background(), pod, client.MergeFrom(before)))
}

// taint has somebody else put a taint and labels on a node and its claim, which are theirs.
func (w *World) taint() error {
	var nodes corev1.NodeList
	if err := w.owner.List(context.Background(), &nodes); err != nil {
		return err
	}
	nodes.Items = slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool {
		return n.Labels[karpv1.NodePoolLabelKey] == "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == foreignKey })
	})
	if at := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return slices.Contains(w.here.nodes, n.Name) }); at >= 0 {
		nodes.Items = nodes.Items[at : at+1]
	}
	if len(nodes.Items) == 0 {
		return nil
	}
	node := &nodes.Items[w.draw.IntN(len(nodes.Items))]
	before := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: foreignKey, Effect: corev1.TaintEffectPreferNoSchedule})
	mark(node)
	if err := w.owner.Patch(context.Background(), node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	var claims karpv1.NodeClaimList
	if err := w.owner.List(context.Background(), &claims); err != nil {
		return err
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Status.ProviderID == node.Spec.ProviderID {
			before := c.DeepCopy()
			mark(c)
			return client.IgnoreNotFound(w.owner.Patch(context.Background(), c, client.MergeFrom(before)))
		}
	}
	return nil
}

func mark(o client.Object) {
	annotations, labels := map[string]string{foreignKey: "keep"}, map[string]string{foreignKey: "keep"}
	for key, value := range o.GetAnnotations() {
		annotations[key] = value
	}
	for key, value := range o.GetLabels() {
		labels[key] = value
	}
	o.SetAnnotations(annotations)
	o.SetLabels(labels)
}

// foreign adds what is not ours: an instance that nobody has tagged, one of a cluster with another name, one of a cluster with the same
// name and another UID, and a node that no instance of ours has.
func (w *World) foreign() error {
	for _, tags := range []map[string]string{
		nil,
		{awsv1.TagClusterPrefix + "other": awsv1.TagClusterOwned, awsv1.TagEKSClusterName: "other", awsv1.TagNodePool: "default", awsv1.TagNodeClass: "default"},
		{awsv1.TagClusterPrefix + clusterName: awsv1.TagClusterOwned, awsv1.TagEKSClusterName: clusterName, aws.TagClusterUID: "another", awsv1.TagNodePool: "default", awsv1.TagNodeClass: "default"},
	} {
		known := map[string]bool{}
		if err := w.aws.EachInstance(region, func(in simaws.Glimpse) { known[in.ID] = true }); err != nil {
			return err
		}
		call := url.Values{"Action": {"RunInstances"}, "ImageId": {w.image()}, "InstanceType": {"m5.large"}, "MinCount": {"1"}, "MaxCount": {"1"}}
		if len(tags) > 0 {
			call.Set("TagSpecification.1.ResourceType", "instance")
			n := 0
			for _, key := range sortedKeys(tags) {
				n++
				call.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", n), key)
				call.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", n), tags[key])
			}
		}
		if err := w.aws.Do(region, "ec2", call); err != nil {
			return fmt.Errorf("adding a foreign instance: %w", err)
		}
		if err := w.aws.EachInstance(region, func(in simaws.Glimpse) {
			if !known[in.ID] {
				w.foreigners[in.ID] = true
			}
		}); err != nil {
			return err
		}
	}
	w.foreignNodes++
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("foreign-", w.foreignNodes), Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///us-west-2a/i-%017d", w.foreignNodes), Taints: []corev1.Taint{{Key: foreignKey, Effect: corev1.TaintEffectNoSchedule}}},
	}
	return w.kubelet.Create(context.Background(), node)
}

const poisonName = "poison"

// poison adds objects that cannot work and must hold up nothing else.
func (w *World) poison() error {
	ctx := context.Background()
	if w.poisoned {
		return nil
	}
	w.poisoned = true
	class := w.class(poisonName)
	class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"there": "is none"}}}
	pool := w.pool(poisonName)
	weight := int32(50)
	pool.Spec.Weight = &weight
	nowhere := w.pool("nowhere")
	nowhere.Spec.Template.Spec.NodeClassRef.Name = "nowhere"
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: poisonName}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: poisonName}
	held := claim.DeepCopy() // by somebody else, for ever
	held.Name, held.Finalizers = poisonName+"-held", []string{foreignKey}
	unplaceable := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: poisonNamespace, Name: "unplaceable"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"there": "is-none"}, Containers: []corev1.Container{{Name: "main", Image: "main"}},
	}}
	huge := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: poisonNamespace, Name: "huge"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100000")}},
	}}}}
	lost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: poisonNamespace, Name: "lost"}, Spec: corev1.PodSpec{
		NodeName: "no-such-node", Containers: []corev1.Container{{Name: "main", Image: "main"}},
	}}
	for _, o := range []client.Object{class, pool, nowhere, claim, held, unplaceable, huge, lost} {
		if err := w.owner.Create(ctx, o); err != nil {
			return fmt.Errorf("adding %T %s: %w", o, o.GetName(), err)
		}
	}
	return w.owner.Delete(ctx, held)
}

// poisonNamespace has the pods that need no node.
const poisonNamespace = "kube-public"

// restoreBackup has the API server forget the claims and their nodes: nobody's finalizer is asked.
func (w *World) restoreBackup() error {
	ctx := context.Background()
	var claims karpv1.NodeClaimList
	if err := w.owner.List(ctx, &claims); err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := w.owner.List(ctx, &nodes); err != nil {
		return err
	}
	w.restored = true
	var gone []client.Object
	for i := range claims.Items {
		gone = append(gone, &claims.Items[i])
	}
	for i := range nodes.Items {
		if ourNode(&nodes.Items[i]) {
			gone = append(gone, &nodes.Items[i])
		}
	}
	for _, o := range gone {
		if err := w.owner.Delete(ctx, o.DeepCopyObject().(client.Object)); client.IgnoreNotFound(err) != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		if err := w.owner.Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// calm ends what goes wrong.
func (w *World) calm() {
	w.aws.ClearFaults()
	w.aws.ClearStock()
	clear(w.api)
	for _, r := range append([]*replica{w.replica}, w.standby...) {
		if r != nil {
			clear(r.held)
		}
	}
	w.lag, w.crashes, w.incidents, w.calmed, w.eventful = lagMost, nil, nil, w.loop.now, w.effects
}
