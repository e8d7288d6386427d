package state

import (
	"cmp"
	"slices"
	"strings"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/toworld"
)

// View is the cluster as far as it is known now. The same value is returned while nothing has changed.
func (m *Mirror) View() *View {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refresh()
	return m.view
}

// refresh makes the view show what is known now.
func (m *Mirror) refresh() {
	m.now = m.clock()
	m.expire()
	m.tidy()
	m.refreshTypes()
	m.refreshPools()
	m.repriceNodes()
	m.refreshPods()
	m.refreshDaemons()
	m.refreshUnits()
	m.refreshSpare()
	m.publish()
}

// tidy numbers classes, or everything, anew once too much of the numbering is waste.
func (m *Mirror) tidy() {
	names := m.nameCount > 0 && len(m.conv.Names.List()) > wasteNames+2*m.nameCount
	if names || m.classes.wasteful() || len(m.read) > 2*len(m.drafts.Reads)+16 {
		m.renumber(names)
	}
}

// renumber builds everything that is derived anew from the objects: classes, and with names the resource vectors too.
func (m *Mirror) renumber(names bool) {
	m.fresh, m.worldChanged = true, true
	m.classes = newClassSet()
	what := rejoin
	if names {
		what = reread
		m.number()
		m.drafts = toworld.NewDraftSet()
		m.types = map[string]*typeList{}
		for _, p := range m.pools {
			p.dirty = true
		}
		for _, d := range m.daemons {
			d.dirty, d.world = true, nil
		}
		m.overlaysChanged, m.overlaysSeen = true, true
	}
	m.read = nil
	for k := range m.drafts.Reads {
		m.read = append(m.read, k)
	}
	slices.Sort(m.read)
	m.queueAll(what, func(e *podEntry) bool {
		e.class = -1
		if names {
			e.draft = nil
		}
		return true
	})
	for _, h := range m.hosts {
		if names {
			h.facts = nil
		}
		m.markHost(h)
	}
	for _, c := range m.claims {
		if names {
			c.facts = nil
		}
		m.markClaim(c)
	}
}

// publish makes a view if there is something new to see.
func (m *Mirror) publish() {
	m.fresh = false
	if m.nameCount == 0 {
		m.nameCount = len(m.conv.Names.List())
	}
	if m.problemsChanged {
		m.listProblems()
	}
	if m.view != nil && !m.changed && !m.worldChanged {
		return
	}
	if m.cover == nil {
		m.cover = &coverIndex{}
	}
	v := &View{Nodes: m.nodes, Overlays: m.overlayList, Problems: m.problemList, pools: m.poolIndex, budgets: m.budgets, cover: m.cover, pods: m.byUID.freeze(), claims: m.byClaim.freeze(), ownCosts: m.opt.OwnDeletionCosts}
	v.sources, v.Told, v.Nominees = m.refreshSources(), m.told, m.listNominees()
	if m.view != nil && !m.worldChanged {
		v.World = m.view.World
	} else {
		v.World = &world.Snapshot{
			Resources: m.conv.Names.List(), Pools: m.poolList, Nodes: m.worlds, Classes: m.classes.share(), Pending: m.pendingWorlds, Spare: m.spareWorlds, Daemons: m.daemonList,
		}
	}
	m.view, m.changed, m.worldChanged, m.budgetsShared = v, false, false, true
}

// problem sets an object aside by name, or takes it back with a nil error.
func (m *Mirror) problem(kind, name, part string, err error) {
	if err == nil && len(m.problems) == 0 {
		return
	}
	key := problemKey{kind, name, part}
	have, ok := m.problems[key]
	switch {
	case err == nil && ok:
		delete(m.problems, key)
	case err != nil && (!ok || have.Error() != err.Error()):
		m.problems[key] = err
	default:
		return
	}
	m.problemsChanged = true
}

// listProblems sorts them with pods before nodes, as it is pods that people ask about.
func (m *Mirror) listProblems() {
	m.problemsChanged, m.changed = false, true
	list := make([]dump.Problem, 0, len(m.problems))
	for k, err := range m.problems {
		list = append(list, dump.Problem{Kind: k.kind, Name: k.name, Text: err.Error()})
	}
	slices.SortFunc(list, func(x, y dump.Problem) int {
		return cmp.Or(strings.Compare(y.Kind, x.Kind), strings.Compare(x.Name, y.Name), strings.Compare(x.Text, y.Text))
	})
	m.problemList = list
}
