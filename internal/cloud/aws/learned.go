package aws

import (
	"maps"

	awsv1 "karpenter/api/aws/v1"
)

// maxLearned bounds what is remembered of memory: more than there are types times images in use.
const maxLearned = 20_000

// booted is an instance with the image that it runs, which together decide how much memory a node has.
type booted struct{ typ, image string }

// memories is what nodes were seen to have, in bytes. It never changes.
type memories map[booted]int64

// LearnMemory notes how much memory a node of the type and image really has. The least that was seen counts, so that what is
// planned always fits.
func (p *Provider) LearnMemory(typ, image string, bytes int64) {
	key := booted{typ, image}
	for bytes > 0 {
		old := p.learned.Load()
		known := memories{}
		if old != nil {
			known = *old
		}
		if least, seen := known[key]; seen && least <= bytes || !seen && len(known) >= maxLearned {
			return
		}
		next := maps.Clone(known)
		next[key] = bytes
		if p.learned.CompareAndSwap(old, &next) {
			return
		}
	}
}

// forClass is what was learned of the class's images, by type.
func (m *memories) forClass(class *awsv1.EC2NodeClass) map[string]int64 {
	if m == nil {
		return nil
	}
	current := map[string]bool{}
	for _, image := range class.Status.AMIs {
		current[image.ID] = true
	}
	out := map[string]int64{}
	for key, bytes := range *m {
		if least, seen := out[key.typ]; current[key.image] && (!seen || bytes < least) {
			out[key.typ] = bytes
		}
	}
	return out
}
