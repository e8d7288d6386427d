package state

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

const bindCompleted = "pv.kubernetes.io/bind-completed"

// inTree names the CSI drivers that took over volume plugins of old.
var inTree = map[string]string{
	"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/azure-disk": "disk.csi.azure.com",
}

// volumeSet knows volume claims, what they lead to, and who uses them.
type volumeSet struct {
	claims  table[*corev1.PersistentVolumeClaim]
	volumes table[*corev1.PersistentVolume]
	storage table[*storagev1.StorageClass]
	// named lists the claims that name a volume.
	named map[string]map[string]bool
	// users are the unfinished pods of a claim; info is what claims in use lead to, as far as asked.
	users map[string]map[*podEntry]bool
	info  map[string]*claimInfo
	// touched lists claims whose users must be looked at again.
	touched map[string]bool
}

func newVolumeSet() *volumeSet {
	return &volumeSet{
		claims: table[*corev1.PersistentVolumeClaim]{}, volumes: table[*corev1.PersistentVolume]{}, storage: table[*storagev1.StorageClass]{},
		named: map[string]map[string]bool{}, users: map[string]map[*podEntry]bool{}, info: map[string]*claimInfo{}, touched: map[string]bool{},
	}
}

func (s *volumeSet) touch(claim string) {
	delete(s.info, claim)
	s.touched[claim] = true
}

func (s *volumeSet) putClaim(c *corev1.PersistentVolumeClaim) {
	full := spaced(c)
	old := s.claims[full]
	if !s.claims.put(full, c) {
		return
	}
	s.rename(full, old, c)
}

func (s *volumeSet) dropClaim(c *corev1.PersistentVolumeClaim) {
	full := spaced(c)
	old := s.claims[full]
	if s.claims.drop(full, c) {
		s.rename(full, old, nil)
	}
}

// rename follows the volume that a claim names.
func (s *volumeSet) rename(full string, old, now *corev1.PersistentVolumeClaim) {
	s.touch(full)
	if old != nil && old.Spec.VolumeName != "" {
		if delete(s.named[old.Spec.VolumeName], full); len(s.named[old.Spec.VolumeName]) == 0 {
			delete(s.named, old.Spec.VolumeName)
		}
	}
	if now != nil && now.Spec.VolumeName != "" {
		if s.named[now.Spec.VolumeName] == nil {
			s.named[now.Spec.VolumeName] = map[string]bool{}
		}
		s.named[now.Spec.VolumeName][full] = true
	}
}

func (s *volumeSet) touchVolume(name string) {
	for full := range s.named[name] {
		s.touch(full)
	}
}

func (s *volumeSet) touchStorage(name string) {
	for full, info := range s.info {
		if info.storage == name {
			s.touch(full)
		}
	}
}

// use notes that a pod uses claims, instead of those that it used before. Whether others share a claim may change for them.
func (s *volumeSet) use(e *podEntry, claims []string) {
	if slices.Equal(e.claims, claims) {
		return
	}
	for _, full := range e.claims {
		delete(s.users[full], e)
		switch len(s.users[full]) {
		case 0:
			delete(s.users, full)
			delete(s.info, full)
		case 1:
			s.touched[full] = true
		}
	}
	for _, full := range claims {
		if s.users[full] == nil {
			s.users[full] = map[*podEntry]bool{}
		}
		if s.users[full][e] = true; len(s.users[full]) == 2 {
			s.touched[full] = true
		}
	}
	e.claims = claims
}

// claimInfo is a volume claim resolved: where it can be used and by which driver it is attached.
type claimInfo struct {
	clause  *world.Clause
	driver  string
	storage string // the class that was asked
	err     string
	// leaving keeps away pods that are not on a node yet.
	leaving string
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

// claimOf is the claim behind a volume of a pod, or "".
func claimOf(o *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return o.Name + "-" + v.Name
	}
	return ""
}

// claimNames lists the volume claims of a pod, with their namespace.
func claimNames(o *corev1.Pod) []string {
	var out []string
	for i := range o.Spec.Volumes {
		if name := claimOf(o, &o.Spec.Volumes[i]); name != "" {
			out = append(out, toworld.FullName(space(o), name))
		}
	}
	return out
}

// podVolumes resolves the claims of a pod; nil if it has none.
func (m *Mirror) podVolumes(e *podEntry, bound bool) *podVolumes {
	if len(e.claims) == 0 {
		return nil
	}
	out := &podVolumes{attach: func(driver string) int { return m.conv.names.Index(world.AttachPrefix + "csi-" + driver) }}
	for _, full := range e.claims {
		info, ok := m.volumes.info[full]
		if !ok {
			info = m.conv.claim(m.volumes, full)
			m.volumes.info[full] = info
		}
		if !bound {
			out.refused = cmp.Or(info.err, info.leaving, out.refused)
		}
		shared := len(m.volumes.users[full]) > 1
		out.claims, out.names, out.shared = append(out.claims, info), append(out.names, full), append(out.shared, shared)
		out.key = append(out.key, 'v')
		if shared {
			out.key = append(append(out.key, full...), 0)
		}
		out.key = append(append(out.key, info.driver...), 0)
		if info.clause != nil {
			out.key = append(out.key, 'c')
			for _, t := range info.clause.Terms {
				out.key = t.AppendKey(out.key)
			}
		}
	}
	out.key = append(append(out.key, 'r'), out.refused...)
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
func (b *converter) claim(s *volumeSet, full string) *claimInfo {
	pvc, ok := s.claims[full]
	if !ok {
		return &claimInfo{err: fmt.Sprintf("volume claim %s does not exist", full)}
	}
	info := b.claimTarget(s, full, pvc)
	if pvc.DeletionTimestamp != nil {
		info.leaving = fmt.Sprintf("volume claim %s is being deleted", full)
	}
	return info
}

func (b *converter) claimTarget(s *volumeSet, full string, pvc *corev1.PersistentVolumeClaim) *claimInfo {
	switch {
	case pvc.Status.Phase == corev1.ClaimLost:
		return &claimInfo{err: fmt.Sprintf("volume claim %s has lost its volume", full)}
	case pvc.Spec.VolumeName != "":
		return b.boundClaim(s, full, pvc)
	case pvc.Spec.StorageClassName == nil || *pvc.Spec.StorageClassName == "":
		return &claimInfo{err: fmt.Sprintf("volume claim %s is not bound and names no storage class", full)}
	}
	name := *pvc.Spec.StorageClassName
	sc, ok := s.storage[name]
	switch {
	case !ok:
		return &claimInfo{storage: name, err: fmt.Sprintf("storage class %s of volume claim %s does not exist", name, full)}
	case sc.VolumeBindingMode == nil || *sc.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return &claimInfo{storage: name, err: fmt.Sprintf("volume claim %s is not bound, and its storage class %s binds immediately: wait for the volume", full, sc.Name)}
	}
	info := &claimInfo{driver: csiDriver(sc.Provisioner), storage: name}
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
func (b *converter) boundClaim(s *volumeSet, full string, pvc *corev1.PersistentVolumeClaim) *claimInfo {
	if pvc.Annotations[bindCompleted] == "" && pvc.Status.Phase != corev1.ClaimBound {
		return &claimInfo{err: fmt.Sprintf("volume claim %s names volume %s but is not bound to it yet", full, pvc.Spec.VolumeName)}
	}
	pv, ok := s.volumes[pvc.Spec.VolumeName]
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
