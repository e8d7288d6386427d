package convert

// translate changes a spec from one version into the other, in place.
type translate func(spec node) error

// memory holds parts of a spec as they looked in a version, by path; nil stands for a part that was not there.
type memory map[string]any

// translated returns a translated copy.
func translated(spec map[string]any, do translate) (map[string]any, error) {
	out := clone(spec)
	if err := do(node{tree: out, path: "spec"}); err != nil {
		return nil, err
	}
	return out, nil
}

// carry converts a spec with forth, and restores what remembered says about the target version.
func carry(spec map[string]any, remembered memory, forth, back translate) (map[string]any, error) {
	out, err := translated(spec, forth)
	if err != nil {
		return nil, err
	}
	return restore(out, remembered, forth, back)
}

// differences returns the parts of spec that differ in other.
func differences(spec, other map[string]any) memory {
	mine, theirs := parts(spec), parts(other)
	out := memory{}
	for path, value := range mine {
		if theirValue, ok := theirs[path]; !ok || !equal(value, theirValue) {
			out[path] = value
		}
	}
	for path := range theirs {
		if _, ok := mine[path]; !ok {
			out[path] = nil
		}
	}
	return out
}

// restore puts remembered parts back into a freshly translated spec. Two rules keep a memory that has become stale from
// winning over an edit that was made in the other version since:
//
//   - A remembered part is merged three ways: with what it would translate to if nothing had been edited, and with
//     what the spec translates to now. Only what is equal in these two comes from memory.
//   - The result must still mean the same in the other version; a part that would change that stays as translated.
func restore(spec map[string]any, remembered memory, forth, back translate) (map[string]any, error) {
	if len(remembered) == 0 {
		return spec, nil
	}
	meaning, err := translated(spec, back)
	if err != nil {
		return nil, err
	}
	before := spec
	for path, value := range remembered {
		before = withPart(before, path, value, value != nil)
	}
	base, err := unedited(before, forth, back)
	if err != nil {
		return spec, nil // the memory is not of this schema: somebody wrote the annotation by hand
	}
	was, is := parts(base), parts(spec)
	for _, path := range sortedKeys(remembered) {
		value, present := merge(slot(remembered, path), slot(was, path), slot(is, path))
		candidate := withPart(spec, path, value, present)
		if same, err := translated(candidate, back); err == nil && equal(same, meaning) {
			spec = candidate
		}
	}
	return spec, nil
}

func unedited(spec map[string]any, forth, back translate) (map[string]any, error) {
	there, err := translated(spec, back)
	if err != nil {
		return nil, err
	}
	return translated(there, forth)
}

// optional is a value that may be missing.
type optional struct {
	value   any
	present bool
}

func slot(m map[string]any, key string) optional {
	value, ok := m[key]
	return optional{value: value, present: ok && value != nil}
}

// merge is a three-way merge: remembered is how the value was written, base what that translates to, now what it is.
func merge(remembered, base, now optional) (any, bool) {
	if base.present == now.present && equal(base.value, now.value) {
		return remembered.value, remembered.present
	}
	baseMap, baseIsMap := base.value.(map[string]any)
	nowMap, nowIsMap := now.value.(map[string]any)
	oldMap, oldIsMap := remembered.value.(map[string]any)
	if baseIsMap && nowIsMap && (oldIsMap || !remembered.present) {
		out := mergeMaps(oldMap, baseMap, nowMap)
		return out, remembered.present || len(out) > 0
	}
	baseList, baseIsList := base.value.([]any)
	nowList, nowIsList := now.value.([]any)
	oldList, oldIsList := remembered.value.([]any)
	if baseIsList && nowIsList && oldIsList && len(oldList) == len(baseList) {
		return mergeLists(oldList, baseList, nowList), true
	}
	return now.value, now.present
}

func mergeMaps(remembered, base, now map[string]any) map[string]any {
	out := map[string]any{}
	for _, source := range []map[string]any{remembered, now} {
		for key := range source {
			if value, ok := merge(slot(remembered, key), slot(base, key), slot(now, key)); ok {
				out[key] = value
			}
		}
	}
	return out
}

// mergeLists pairs each element with the equal one of base, wherever that is; where the length did not change, an
// edited element is paired with the one in its place.
func mergeLists(remembered, base, now []any) []any {
	pair := make([]int, len(now)) // index into base, or -1
	taken := make([]bool, len(base))
	match := func(i, j int) bool {
		if taken[j] || !equal(now[i], base[j]) {
			return false
		}
		pair[i], taken[j] = j, true
		return true
	}
	for i := range now {
		pair[i] = -1
		if i < len(base) {
			match(i, i)
		}
	}
	for i := range now {
		for j := 0; pair[i] < 0 && j < len(base); j++ {
			match(i, j)
		}
	}
	out := make([]any, len(now))
	for i, item := range now {
		switch {
		case pair[i] >= 0:
			out[i] = remembered[pair[i]]
		case len(now) == len(base) && !taken[i]:
			out[i], _ = merge(optional{remembered[i], true}, optional{base[i], true}, optional{item, true})
		default:
			out[i] = item
		}
	}
	return out
}
