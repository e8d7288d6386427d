package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/sim/kube"
)

// orphanWindow is for how long an instance may run without a claim: it takes that long to prove that nobody will claim it.
const orphanWindow = 15 * time.Minute

// breach is an invariant that did not hold.
type breach struct{ rule, what string }

// Error implements error.
func (b *breach) Error() string { return b.rule + ": " + b.what }

// watchClaims holds a write against S8: a claim goes only when its instance has ended, or never was.
func (w *World) watchClaims(op *kube.Op) {
	claim, ok := op.Old.(*karpv1.NodeClaim)
	if !ok || op.New != nil || op.Err != nil {
		return
	}
	for _, in := range w.instances() {
		if claim.Status.ProviderID != "" && strings.HasSuffix(claim.Status.ProviderID, "/"+in.ID) && lives(in) {
			w.breached("S8", "NodeClaim %s is gone and its instance %s is %s", claim.Name, in.ID, in.State)
		}
	}
}

func (w *World) breached(rule, format string, args ...any) {
	if w.fatal == nil {
		w.fatal = &breach{rule, fmt.Sprintf(format, args...)}
		w.note("breach of %s: %s", rule, w.fatal)
	}
}

func lives(in simaws.InstanceView) bool { return in.State == "pending" || in.State == "running" }

// instances are those that were launched for this cluster's pools.
func (w *World) instances() (out []simaws.InstanceView) {
	all, err := w.aws.Instances(region)
	if err != nil {
		w.fatal = err
	}
	for _, in := range all {
		if in.Tags[karpv1.NodePoolLabelKey] != "" {
			out = append(out, in)
		}
	}
	return out
}

// check looks at what must hold at any time.
func (w *World) check() {
	owners, made, claimed := map[string]string{}, map[string]int{}, map[string]int64{}
	var claims karpv1.NodeClaimList
	if err := w.owner.List(context.Background(), &claims); err != nil {
		w.fatal = err
		return
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		claimed[c.Labels[karpv1.NodePoolLabelKey]]++
		id := c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:]
		if id == "" {
			continue
		}
		if other := owners[id]; other != "" {
			w.breached("S2", "instance %s belongs to NodeClaims %s and %s", id, other, c.Name)
		}
		owners[id] = c.Name
	}
	cpu := map[string]int64{}
	for _, in := range w.instances() {
		made[in.Tags[cloud.BatchAnnotationKey]]++
		if !lives(in) {
			continue
		}
		if owners[in.ID] == "" && w.loop.now.Sub(in.Launched) > orphanWindow {
			w.breached("S1", "instance %s has run for %v without a NodeClaim", in.ID, w.loop.now.Sub(in.Launched))
		}
		cpu[in.Tags[karpv1.NodePoolLabelKey]] += int64(w.vcpus(in.Type))
	}
	for batch, n := range made {
		if size := sizeOf(batch); size > 0 && n > size {
			w.breached("S2", "%d instances were launched for batch %s, which has %d NodeClaims", n, batch, size)
		}
	}
	var pools karpv1.NodePoolList
	if err := w.owner.List(context.Background(), &pools); err != nil {
		w.fatal = err
		return
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		if limit, ok := p.Spec.Limits[karpv1.LimitsNodes]; ok && p.Spec.Replicas != nil && claimed[p.Name] > limit.Value() {
			w.breached("S3", "static NodePool %s has %d NodeClaims and may have %d", p.Name, claimed[p.Name], limit.Value())
		}
		if limit, ok := p.Spec.Limits[corev1.ResourceCPU]; ok && cpu[p.Name] > limit.Value() {
			w.breached("S3", "NodePool %s has %d vCPUs and may have %d", p.Name, cpu[p.Name], limit.Value())
		}
	}
}

// sizeOf is how many claims a batch has, as its id says.
func sizeOf(batch string) int {
	n, err := strconv.Atoi(batch[strings.LastIndexByte(batch, 'x')+1:])
	if err != nil || !strings.Contains(batch, "x") {
		return 0
	}
	return n
}

// Settled says what is not as it must be when nothing has been wrong for a while (L2, L3, S1): nil if all is well.
func (w *World) Settled() error {
	ctx := context.Background()
	var pods corev1.PodList
	var claims karpv1.NodeClaimList
	for _, list := range []client.ObjectList{&pods, &claims} {
		if err := w.owner.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == "" {
			return &breach{"L2", "pod " + pod.Name + " has no node"}
		}
	}
	owned, up := map[string]bool{}, map[string]int64{}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.DeletionTimestamp != nil && w.loop.now.Sub(c.DeletionTimestamp.Time) > 10*time.Minute {
			return &breach{"L3", fmt.Sprintf("NodeClaim %s has been going for %v", c.Name, w.loop.now.Sub(c.DeletionTimestamp.Time))}
		}
		if c.DeletionTimestamp == nil && c.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
			up[c.Labels[karpv1.NodePoolLabelKey]]++
		}
		owned[c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:]] = true
	}
	for _, in := range w.instances() {
		if lives(in) && !owned[in.ID] {
			return &breach{"S1", "instance " + in.ID + " has no NodeClaim"}
		}
	}
	var pools karpv1.NodePoolList
	if err := w.owner.List(ctx, &pools); err != nil {
		return err
	}
	for i := range pools.Items {
		if p := &pools.Items[i]; p.Spec.Replicas != nil && up[p.Name] != *p.Spec.Replicas {
			return &breach{"P103", fmt.Sprintf("static NodePool %s has %d nodes and replicas is %d", p.Name, up[p.Name], *p.Spec.Replicas)}
		}
	}
	return nil
}
