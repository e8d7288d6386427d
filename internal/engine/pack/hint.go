package pack

import (
	"slices"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

const (
	absurdCPU    = 1_000_000_000 // a million cores, in millicores: 1M was meant to be 1m
	absurdMemory = 1 << 20       // a container cannot start in less: 512m was meant to be 512Mi
)

// hints names likely mistakes: units, and labels or values that nothing has but that resemble something.
func (r *run) hints(rc *runClass) []why.Reason {
	var out []why.Reason
	if v := rc.c.Requests.Get(world.CPU); v >= absurdCPU {
		out = append(out, why.New(why.Hint, "cpu request is %s cores: M stands for a million, m for a thousandth", amountText("cpu", v)))
	}
	if v := rc.c.Requests.Get(world.Memory); v > 0 && v < absurdMemory {
		out = append(out, why.New(why.Hint, "memory request is %d bytes: m stands for a thousandth, Mi for mebibytes", v))
	}
	var keys []string
	for _, cl := range slices.Concat(rc.c.Needs, rc.c.Volumes) {
		for _, t := range cl.Terms {
			for _, q := range t {
				if !q.AdmitsAbsent() {
					if keys == nil {
						keys = r.m.labelKeys()
					}
					out = append(out, r.labelHint(q.Key, q.Mentions(), keys)...)
				}
			}
		}
	}
	return out
}

// labelHint looks at one label that a pod asks for.
func (r *run) labelHint(key string, values, keys []string) []why.Reason {
	if _, known := slices.BinarySearch(keys, key); !known {
		if like := why.Similar(key, keys); like != "" {
			return []why.Reason{why.New(why.Hint, "no node or type has label %s: typo of %s?", key, like)}
		}
		return nil
	}
	have := slices.Concat(r.m.optCols.column(key).values, r.m.nodeCols.column(key).values)
	slices.Sort(have)
	var out []why.Reason
	for _, v := range values {
		if _, known := slices.BinarySearch(have, v); known || r.m.cutOff(key, v) {
			continue
		}
		if like := why.Similar(v, have); like != "" {
			out = append(out, why.New(why.Hint, "no node or type has %s %s: typo of %s?", key, v, like))
		}
	}
	return out
}

// labelKeys lists every label key that a node has or will have, sorted. It is found once.
func (m *Model) labelKeys() []string {
	m.keysOnce.Do(func() { m.keys = m.findLabelKeys() })
	return m.keys
}

func (m *Model) findLabelKeys() []string {
	seen := map[string]bool{world.LabelZone: true, world.LabelCapacityType: true, world.LabelInstanceType: true, world.LabelPool: true, world.LabelHostname: true}
	note := func(l world.Labels) {
		for _, x := range l {
			seen[x.Key] = true
		}
	}
	types := map[*world.InstanceType]bool{}
	for i := range m.options {
		o := &m.options[i]
		if !types[o.typ] {
			types[o.typ] = true
			note(o.typ.Labels)
		}
		note(o.off.Labels)
	}
	for _, v := range m.variants {
		note(v.labels)
	}
	for _, n := range m.snap.Nodes {
		note(n.Labels)
	}
	out := make([]string, 0, len(seen))
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
