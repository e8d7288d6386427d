package local

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/simaws"
)

const (
	// volumeDriver is the driver for EBS volumes, whose part this package plays.
	volumeDriver = "ebs.csi.aws.com"
	// volumeZoneLabel is the driver's own name of a zone.
	volumeZoneLabel = "topology.ebs.csi.aws.com/zone"
	// selectedNode is where the scheduler writes which node a volume is wanted for.
	selectedNode = "volume.kubernetes.io/selected-node"
)

// volumesPerNode is how many volumes can be attached to a node where EC2 does not state it: what most types leave beside interfaces and the
// root.
const volumesPerNode = 25

// volumeKeeper makes persistent volumes for claims of our driver, in the zone of the node that the scheduler chose.
type volumeKeeper struct {
	kube client.WithWatch
}

// run works until ctx ends. What goes wrong is tried again when the watch is opened anew.
func (v *volumeKeeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = v.watch(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (v *volumeKeeper) watch(ctx context.Context) error {
	watcher, err := v.kube.Watch(ctx, &corev1.PersistentVolumeClaimList{})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-watcher.ResultChan():
			claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
			switch {
			case !open:
				return nil
			case !ok:
			case event.Type == watch.Deleted:
				err = v.reclaim(ctx, claim)
			default:
				err = v.provision(ctx, claim)
			}
			if err != nil {
				return err
			}
		}
	}
}

// attachable is how many volumes the driver can attach to an instance beside its own.
func attachable(m *simaws.Instance) int32 {
	if m.Info == nil || m.Info.EBS.MaxAttachments == 0 {
		return volumesPerNode
	}
	return int32(max(m.Info.EBS.MaxAttachments-max(m.Volumes, 1), 0))
}

func (v *volumeKeeper) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	chosen := claim.Annotations[selectedNode]
	if claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil || chosen == "" {
		return nil
	}
	class := &storagev1.StorageClass{}
	if err := v.kube.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
		return client.IgnoreNotFound(err)
	}
	node := &corev1.Node{}
	if err := v.kube.Get(ctx, client.ObjectKey{Name: chosen}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if class.Provisioner != volumeDriver {
		return nil
	}
	if err := v.kube.Create(ctx, volume(claim, class, node.Labels[corev1.LabelTopologyZone])); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making a volume for %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// reclaim deletes the volume of a claim that is gone, if its class wants that.
func (v *volumeKeeper) reclaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume := &corev1.PersistentVolume{}
	err := v.kube.Get(ctx, client.ObjectKey{Name: volumeName(claim)}, volume)
	if err != nil || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(v.kube.Delete(ctx, volume))
}

func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// volume is the persistent volume for a claim. It is bound to the claim from the start, so that nobody else takes it.
func volume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone string) *corev1.PersistentVolume {
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim),
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": volumeDriver},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       claim.Spec.VolumeMode,
			StorageClassName: class.Name, PersistentVolumeReclaimPolicy: reclaim,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: volumeDriver, VolumeHandle: "vol-" + string(claim.UID)}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: volumeZoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		},
	}
}
