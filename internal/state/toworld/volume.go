package toworld

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const bindCompleted = "pv.kubernetes.io/bind-completed"

// inTree names the CSI drivers that took over volume plugins of old.
var inTree = map[string]string{
	"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/azure-disk": "disk.csi.azure.com",
}

// Storage is what volume claims are followed through, each kind by name.
type Storage struct {
	Claims  map[string]*corev1.PersistentVolumeClaim // by full name
	Volumes map[string]*corev1.PersistentVolume
	Classes map[string]*storagev1.StorageClass
}

// ClaimInfo is a volume claim resolved: where it can be used and by which driver it is attached.
type ClaimInfo struct {
	Clause *world.Clause
	Driver string
	Class  string // the class that was asked
	Err    string
	// Leaving keeps away pods that are not on a node yet.
	Leaving string
}

// Claim finds where a claim's volume can be used, or why it cannot.
func (b *Converter) Claim(s Storage, full string) *ClaimInfo {
	pvc, ok := s.Claims[full]
	if !ok {
		return &ClaimInfo{Err: fmt.Sprintf("volume claim %s does not exist", full)}
	}
	info := b.claimTarget(s, full, pvc)
	if pvc.DeletionTimestamp != nil {
		info.Leaving = fmt.Sprintf("volume claim %s is being deleted", full)
	}
	return info
}

func (b *Converter) claimTarget(s Storage, full string, pvc *corev1.PersistentVolumeClaim) *ClaimInfo {
	switch {
	case pvc.Status.Phase == corev1.ClaimLost:
		return &ClaimInfo{Err: fmt.Sprintf("volume claim %s has lost its volume", full)}
	case pvc.Spec.VolumeName != "":
		return b.boundClaim(s, full, pvc)
	case pvc.Spec.StorageClassName == nil || *pvc.Spec.StorageClassName == "":
		return &ClaimInfo{Err: fmt.Sprintf("volume claim %s is not bound and names no storage class", full)}
	}
	name := *pvc.Spec.StorageClassName
	sc, ok := s.Classes[name]
	switch {
	case !ok:
		return &ClaimInfo{Class: name, Err: fmt.Sprintf("storage class %s of volume claim %s does not exist", name, full)}
	case sc.VolumeBindingMode == nil || *sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return &ClaimInfo{Class: name, Err: fmt.Sprintf("volume claim %s is not bound, and its storage class %s binds immediately: wait for the volume", full, sc.Name)}
	}
	info := &ClaimInfo{Driver: csiDriver(sc.Provisioner), Class: name}
	if len(sc.AllowedTopologies) > 0 {
		info.Clause = &world.Clause{Source: "storage class " + sc.Name}
		for _, t := range sc.AllowedTopologies {
			set := req.Set{}
			for _, e := range t.MatchLabelExpressions {
				if r, err := req.New(b.Rules.Normalize(e.Key), req.In, e.Values...); err == nil {
					set = set.With(r)
				}
			}
			info.Clause.Terms = append(info.Clause.Terms, set)
		}
	}
	return info
}

func csiDriver(provisioner string) string {
	if d, ok := inTree[provisioner]; ok {
		return d
	}
	return provisioner
}

// boundClaim follows a claim to its volume.
func (b *Converter) boundClaim(s Storage, full string, pvc *corev1.PersistentVolumeClaim) *ClaimInfo {
	if pvc.Annotations[bindCompleted] == "" && pvc.Status.Phase != corev1.ClaimBound {
		return &ClaimInfo{Err: fmt.Sprintf("volume claim %s names volume %s but is not bound to it yet", full, pvc.Spec.VolumeName)}
	}
	pv, ok := s.Volumes[pvc.Spec.VolumeName]
	switch {
	case !ok:
		return &ClaimInfo{Err: fmt.Sprintf("volume %s of claim %s does not exist", pvc.Spec.VolumeName, full)}
	case pv.DeletionTimestamp != nil:
		return &ClaimInfo{Err: fmt.Sprintf("volume %s of claim %s is being deleted", pv.Name, full)}
	}
	info := &ClaimInfo{}
	switch {
	case pv.Spec.CSI != nil:
		info.Driver = pv.Spec.CSI.Driver
	case pv.Spec.AWSElasticBlockStore != nil:
		info.Driver = "ebs.csi.aws.com"
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return info
	}
	local := pv.Spec.Local != nil || pv.Spec.HostPath != nil
	clause := &world.Clause{Source: "volume " + pvc.Name}
	for i := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		set, err := b.nodeTerm(&pv.Spec.NodeAffinity.Required.NodeSelectorTerms[i])
		if err != nil {
			info.Err = fmt.Sprintf("volume %s: %v", pv.Name, err)
			return info
		}
		if local { // the data is gone with its host, and a new host will have new data
			set = slices.DeleteFunc(slices.Clone(set), func(r req.Requirement) bool { return r.Key == corev1.LabelHostname })
		}
		clause.Terms = append(clause.Terms, set)
	}
	info.Clause = clause
	return info
}
