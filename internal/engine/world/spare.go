package world

import (
	"slices"
	"strconv"
	"strings"
)

// SparePriority is the priority of spare pods: nothing that exists makes room for them.
const SparePriority = -1 << 31

// Held counts the spare pods of a buffer, which is written namespace/name.
type Held struct {
	Buffer string
	Pods   int
}

// SparePods counts the spare pods in a list by buffer, in order of name.
func (s *Snapshot) SparePods(pods []*Pod) []Held {
	var out []Held
	for _, p := range pods {
		if !p.Spare {
			continue
		}
		buffer := s.Classes[p.Class].Buffer
		at, found := slices.BinarySearchFunc(out, buffer, func(h Held, name string) int { return strings.Compare(h.Buffer, name) })
		if !found {
			out = slices.Insert(out, at, Held{Buffer: buffer})
		}
		out[at].Pods++
	}
	return out
}

// HeldWords says what is held: 3 spare pods of buffer default/web and 1 of buffer default/db.
func HeldWords(list []Held) string {
	var parts []string
	for i, h := range list {
		noun := ""
		if i == 0 {
			noun = " spare pods"
			if h.Pods == 1 {
				noun = " spare pod"
			}
		}
		parts = append(parts, strconv.Itoa(h.Pods)+noun+" of buffer "+h.Buffer)
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// Real is a list of pods without the spare ones; the list itself if it has none.
func Real(pods []*Pod) []*Pod {
	if !slices.ContainsFunc(pods, func(p *Pod) bool { return p.Spare }) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return p.Spare })
}
