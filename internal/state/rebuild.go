package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
)

// Record is what a view is made from besides objects.
type Record struct {
	// Classes holds what each node class can launch, by its name. A class that is not in it is an error of the pools that name it.
	// AnyClass stands for every other.
	Classes map[string]*dump.Catalog
	// Leaving names claims that are about to be deleted and do not show it yet.
	Leaving []string
	// Shared names pods that need a node because those like them do, by UID.
	Shared []string
	// Resources is the order in which resources are numbered, as far as it is given.
	Resources []string
	Options   Options
	Now       time.Time

	read classLists // what Read has made of Classes
	bad  []dump.Problem
}

// Read converts the catalogues once for all views that are made from this record and its copies.
func (r *Record) Read() { r.read, r.bad = r.lists() }

// AnyClass is the name in Record.Classes that stands for every class without a list of its own.
const AnyClass = "*"

// BuildView makes a view from objects, as of a moment: what Build makes a world from, with the objects still behind it.
func BuildView(obj *dump.Objects, catalog *dump.Catalog, opt Options, now time.Time) (*View, []dump.Problem) {
	return Rebuild(obj, Record{Classes: map[string]*dump.Catalog{AnyClass: catalog}, Options: opt, Now: now})
}

// Rebuild makes a view from objects, as of a moment. The view means the same as the one whose objects they are.
func Rebuild(obj *dump.Objects, rec Record) (*View, []dump.Problem) {
	if rec.read == nil {
		rec.Read()
	}
	lists, problems := maps.Clone(rec.read), slices.Clone(rec.bad)
	for _, p := range obj.Pools {
		lists.expect(poolClass(p))
	}
	m := NewMirror(MirrorOptions{Options: rec.Options, Now: func() time.Time { return rec.Now }, Types: lists.types, Resources: rec.Resources})
	lists.preload(m)
	if rec.Classes[AnyClass] != nil {
		m.typesOf("") // nodes that no pool made have prices too
	}
	m.kins.remember(rec.Shared)
	problems = append(problems, m.load(obj)...)
	for _, claim := range rec.Leaving {
		m.Leaving(claim)
	}
	v := m.View()
	for _, p := range v.World.Pools {
		p.Offers() // found out here, once, so that decisions need not
	}
	return v, append(problems, v.Problems...)
}

// classLists is what classes can launch, by name.
type classLists map[string]*classList

type classList struct {
	resources []string
	list      []*world.InstanceType
	err       error
}

// lists converts the catalogues; classes that share one go on sharing it.
func (r *Record) lists() (classLists, []dump.Problem) {
	out, seen := classLists{}, map[*dump.Catalog]*classList{}
	var problems []dump.Problem
	for _, name := range slices.Sorted(maps.Keys(r.Classes)) {
		c := r.Classes[name]
		if seen[c] == nil {
			resources, list, bad := c.Types()
			problems = append(problems, bad...)
			seen[c] = &classList{resources: resources, list: list}
			if c != nil && c.Error != "" {
				seen[c].err = errors.New(c.Error)
			}
		}
		out[name] = seen[c]
	}
	return out, problems
}

// find is the list of a class; nil if nothing is known of it.
func (l classLists) find(class string) *classList {
	if found := l[class]; found != nil {
		return found
	}
	plain, _ := SplitClass(class)
	if found := l[plain]; found != nil {
		return found
	}
	return l[AnyClass]
}

// expect makes it an error that nothing is known of a class.
func (l classLists) expect(class string) {
	if l.find(class) == nil {
		l[class] = &classList{err: fmt.Errorf("nothing is recorded of node class %q", class)}
	}
}

func (l classLists) types(class string) ([]string, []*world.InstanceType, uint64, error) {
	found := l.find(class)
	if found == nil { // only claims name it, which were made when it was there
		return nil, nil, 1, nil
	}
	return found.resources, found.list, 1, found.err
}

// preload tells the mirror of lists that could not be brought up to date: what was known before still tells prices.
func (l classLists) preload(m *Mirror) {
	for _, class := range slices.Sorted(maps.Keys(l)) {
		c := l[class]
		if c.err == nil || class == AnyClass {
			continue
		}
		m.types[class] = &typeList{version: 1, list: m.translate(c.resources, c.list), source: c.list, err: c.err, largest: map[largestKey]world.Resources{}}
		m.problem("NodeClass", class, "types", c.err)
	}
}
