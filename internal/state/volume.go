package state

import (
	"encoding/binary"
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

type volumeIndex struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	storage map[string]*storagev1.StorageClass
	users   map[string]int // pods per claim that are not finished
	byClaim map[string]*claimInfo
}

// claimInfo is a volume claim resolved: where it can be used and by which driver it is attached.
type claimInfo struct {
	id     int
	clause *world.Clause
	driver string
	err    string
}

// podVolumes is what a pod's volumes mean for its class.
type podVolumes struct {
	key     []byte
	claims  []*claimInfo
	names   []string
	shared  []bool
	refused string
	attach  func(driver string) int
}

func (b *builder) indexVolumes() *volumeIndex {
	x := &volumeIndex{
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		storage: map[string]*storagev1.StorageClass{}, users: map[string]int{}, byClaim: map[string]*claimInfo{},
	}
	for _, c := range b.obj.VolumeUses {
		x.claims[fullName(c.Namespace, c.Name)] = c
	}
	for _, v := range b.obj.Volumes {
		x.volumes[v.Name] = v
	}
	for _, s := range b.obj.Storage {
		x.storage[s.Name] = s
	}
	for _, o := range b.obj.Pods {
		if terminal(o) {
			continue
		}
		for i := range o.Spec.Volumes {
			if name := claimOf(o, &o.Spec.Volumes[i]); name != "" {
				x.users[fullName(o.Meta.Namespace, name)]++
			}
		}
	}
	return x
}

// claimOf is the claim behind a volume of a pod, or "".
func claimOf(o *PodObject, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return o.Meta.Name + "-" + v.Name
	}
	return ""
}

// podVolumes resolves the claims of a pod; nil if it has none.
func (b *builder) podVolumes(o *PodObject) *podVolumes {
	var out *podVolumes
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		name := claimOf(o, v)
		if name == "" {
			continue
		}
		if out == nil {
			out = &podVolumes{attach: func(driver string) int { return b.names.Index(world.AttachPrefix + "csi-" + driver) }}
		}
		ns := o.Meta.Namespace
		if ns == "" {
			ns = "default"
		}
		full := fullName(ns, name)
		info, ok := b.volumes.byClaim[full]
		if !ok {
			info = b.claim(full, o.Spec.NodeName != "")
			info.id = len(b.volumes.byClaim)
			b.volumes.byClaim[full] = info
		}
		if info.err != "" && o.Spec.NodeName == "" {
			out.refused = info.err
		}
		shared := b.volumes.users[full] > 1
		out.claims, out.names, out.shared = append(out.claims, info), append(out.names, full), append(out.shared, shared)
		out.key = append(out.key, 'v')
		if shared || info.err != "" {
			out.key = binary.AppendVarint(out.key, int64(info.id)+1)
		}
		out.key = append(out.key, info.driver...)
		if info.clause != nil {
			out.key = append(out.key, 'c')
			for _, t := range info.clause.Terms {
				out.key = t.AppendKey(out.key)
			}
		}
	}
	return out
}

// apply adds what the volumes ask for to a class.
func (p *podVolumes) apply(c *world.Class) {
	c.Requests = slices.Clone(c.Requests)
	for i, info := range p.claims {
		if info.clause != nil {
			c.Volumes = append(c.Volumes, *info.clause)
		}
		if info.driver == "" {
			continue
		}
		at := p.attach(info.driver)
		if p.shared[i] {
			c.Shared = append(c.Shared, world.SharedVolume{Resource: at, Claim: p.names[i]})
		} else {
			c.Requests = c.Requests.Set(at, c.Requests.Get(at)+1)
		}
	}
	if p.refused != "" {
		c.Refused = p.refused
	}
}

// claim finds where a claim's volume can be used, or why it cannot.
func (b *builder) claim(full string, bound bool) *claimInfo {
	pvc, ok := b.volumes.claims[full]
	switch {
	case !ok:
		return &claimInfo{err: fmt.Sprintf("volume claim %s does not exist", full)}
	case pvc.DeletionTimestamp != nil && !bound:
		return &claimInfo{err: fmt.Sprintf("volume claim %s is being deleted", full)}
	case pvc.Status.Phase == corev1.ClaimLost:
		return &claimInfo{err: fmt.Sprintf("volume claim %s has lost its volume", full)}
	case pvc.Spec.VolumeName != "":
		return b.boundClaim(full, pvc)
	}
	if pvc.Spec.StorageClassName == nil || *pvc.Spec.StorageClassName == "" {
		return &claimInfo{err: fmt.Sprintf("volume claim %s is not bound and names no storage class", full)}
	}
	sc, ok := b.volumes.storage[*pvc.Spec.StorageClassName]
	switch {
	case !ok:
		return &claimInfo{err: fmt.Sprintf("storage class %s of volume claim %s does not exist", *pvc.Spec.StorageClassName, full)}
	case sc.VolumeBindingMode == nil || *sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return &claimInfo{err: fmt.Sprintf("volume claim %s is not bound, and its storage class %s binds immediately: wait for the volume", full, sc.Name)}
	}
	info := &claimInfo{driver: csiDriver(sc.Provisioner)}
	if len(sc.AllowedTopologies) > 0 {
		info.clause = &world.Clause{Source: "storage class " + sc.Name}
		for _, t := range sc.AllowedTopologies {
			set := req.Set{}
			for _, e := range t.MatchLabelExpressions {
				if r, err := req.New(b.rules.Normalize(e.Key), req.In, e.Values...); err == nil {
					set = set.With(r)
				}
			}
			info.clause.Terms = append(info.clause.Terms, set)
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
func (b *builder) boundClaim(full string, pvc *corev1.PersistentVolumeClaim) *claimInfo {
	if pvc.Annotations[bindCompleted] == "" && pvc.Status.Phase != corev1.ClaimBound {
		return &claimInfo{err: fmt.Sprintf("volume claim %s names volume %s but is not bound to it yet", full, pvc.Spec.VolumeName)}
	}
	pv, ok := b.volumes.volumes[pvc.Spec.VolumeName]
	switch {
	case !ok:
		return &claimInfo{err: fmt.Sprintf("volume %s of claim %s does not exist", pvc.Spec.VolumeName, full)}
	case pv.DeletionTimestamp != nil:
		return &claimInfo{err: fmt.Sprintf("volume %s of claim %s is being deleted", pv.Name, full)}
	}
	info := &claimInfo{}
	switch {
	case pv.Spec.CSI != nil:
		info.driver = pv.Spec.CSI.Driver
	case pv.Spec.AWSElasticBlockStore != nil:
		info.driver = "ebs.csi.aws.com"
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return info
	}
	local := pv.Spec.Local != nil || pv.Spec.HostPath != nil
	clause := &world.Clause{Source: "volume " + pvc.Name}
	for i := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		set, err := b.nodeTerm(&pv.Spec.NodeAffinity.Required.NodeSelectorTerms[i])
		if err != nil {
			info.err = fmt.Sprintf("volume %s: %v", pv.Name, err)
			return info
		}
		if local { // the data is gone with its host, and a new host will have new data
			set = slices.DeleteFunc(slices.Clone(set), func(r req.Requirement) bool { return r.Key == corev1.LabelHostname })
		}
		clause.Terms = append(clause.Terms, set)
	}
	info.clause = clause
	return info
}
