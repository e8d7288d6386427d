package state

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// volumeSet knows volume claims, what they lead to, and who uses them.
type volumeSet struct {
	claims  table[*corev1.PersistentVolumeClaim]
	volumes table[*corev1.PersistentVolume]
	storage table[*storagev1.StorageClass]
	// named lists the claims that name a volume.
	named map[string]map[string]bool
	// users are the unfinished pods of a claim; info is what claims in use lead to, as far as asked.
	users map[string]map[*podEntry]bool
	info  map[string]*toworld.ClaimInfo
	// touched lists claims whose users must be looked at again.
	touched map[string]bool
}

func newVolumeSet() *volumeSet {
	return &volumeSet{
		claims: table[*corev1.PersistentVolumeClaim]{}, volumes: table[*corev1.PersistentVolume]{}, storage: table[*storagev1.StorageClass]{},
		named: map[string]map[string]bool{}, users: map[string]map[*podEntry]bool{}, info: map[string]*toworld.ClaimInfo{}, touched: map[string]bool{},
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
		if info.Class == name {
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

// podVolumes is what a pod's volumes mean for its class.
type podVolumes struct {
	key     []byte
	claims  []*toworld.ClaimInfo
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
			out = append(out, toworld.FullName(toworld.Space(o), name))
		}
	}
	return out
}

// podVolumes resolves the claims of a pod; nil if it has none.
func (m *Mirror) podVolumes(e *podEntry, bound bool) *podVolumes {
	if len(e.claims) == 0 {
		return nil
	}
	out := &podVolumes{attach: func(driver string) int { return m.conv.Names.Index(world.AttachResource(driver)) }}
	for _, full := range e.claims {
		info, ok := m.volumes.info[full]
		if !ok {
			info = m.conv.Claim(toworld.Storage{Claims: m.volumes.claims, Volumes: m.volumes.volumes, Classes: m.volumes.storage}, full)
			m.volumes.info[full] = info
		}
		if !bound {
			out.refused = cmp.Or(info.Err, info.Leaving, out.refused)
		}
		shared := len(m.volumes.users[full]) > 1
		out.claims, out.names, out.shared = append(out.claims, info), append(out.names, full), append(out.shared, shared)
		out.key = append(out.key, 'v')
		if shared {
			out.key = append(append(out.key, full...), 0)
		}
		out.key = append(append(out.key, info.Driver...), 0)
		if info.Clause != nil {
			out.key = append(out.key, 'c')
			for _, t := range info.Clause.Terms {
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
		if info.Clause != nil {
			c.Volumes = append(c.Volumes, *info.Clause)
		}
		if info.Driver == "" {
			continue
		}
		at := p.attach(info.Driver)
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
