package meter

import (
	"sync"
	"time"
)

// Object is what status metrics need to know of one object.
type Object struct {
	Kind            Tracked
	Namespace, Name string
	// Labels of the object, by their own keys; those that the kind's metrics carry are picked from them.
	Labels     map[string]string
	Conditions []Condition
	// Deleted is when its deletion was asked for, if it was.
	Deleted time.Time
}

// Condition is one condition of an object.
type Condition struct {
	Type, Status, Reason string
	// Since is when it got this status.
	Since time.Time
}

// Transition is a change of a condition's status. Before the first status that was seen, From is empty.
type Transition struct {
	Type, From, To, Reason string
}

// Conditions turns what is seen of objects into the status metrics of their kinds (O45). It is safe for concurrent use.
type Conditions struct {
	set *Set
	now func() time.Time

	mu   sync.Mutex
	seen map[objectKey]Object
}

type objectKey struct {
	kind            Tracked
	namespace, name string
}

// NewConditions measures into set. What says how things are is made from the objects whenever somebody looks, so that it is never
// out of date.
func NewConditions(set *Set, now func() time.Time) *Conditions {
	c := &Conditions{set: set, now: now, seen: map[objectKey]Object{}}
	for _, t := range set.kinds() {
		c.live(t.kind)
	}
	c.live("")
	return c
}

// See takes note of an object as it is now, and returns which conditions have changed since it was seen last. An object that
// is seen for the first time has changed nothing: what it went through before is not known.
func (c *Conditions) See(o Object) []Transition {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := objectKey{o.Kind, o.Namespace, o.Name}
	before, known := c.seen[key]
	if !known && len(c.seen) >= maxObjects {
		c.set.refuse(statusName(o.Kind, conditionCount), "series")
		return nil
	}
	var changes []Transition
	if known {
		changes = c.compare(before, o)
	}
	c.seen[key] = o
	return changes
}

// Gone takes note that an object does not exist any more.
func (c *Conditions) Gone(kind Tracked, namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := objectKey{kind, namespace, name}
	o, known := c.seen[key]
	if !known {
		return
	}
	delete(c.seen, key)
	if !o.Deleted.IsZero() {
		c.each(o, terminationSeconds, c.now().Sub(o.Deleted).Seconds(), (*Set).Observe)
	}
}

func (c *Conditions) compare(before, after Object) []Transition {
	var changes []Transition
	for _, condition := range after.Conditions {
		was := find(before.Conditions, condition.Type)
		if was.Status == condition.Status {
			continue
		}
		changes = append(changes, Transition{Type: condition.Type, From: was.Status, To: condition.Status, Reason: condition.Reason})
		c.each(after, transitionsTotal, 1, (*Set).Add, "type", condition.Type, "status", condition.Status, "reason", condition.Reason)
		if was.Status != "" {
			lasted := max(condition.Since.Sub(was.Since).Seconds(), 0)
			c.each(after, transitionSeconds, lasted, (*Set).Observe, "type", condition.Type, "status", was.Status, "to_status", condition.Status)
		}
	}
	return changes
}

func find(conditions []Condition, kind string) Condition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{}
}

// live has the metrics made that tell how the objects of a kind are or, with no kind, the older ones for all.
func (c *Conditions) live(kind Tracked) {
	c.set.Live(statusName(kind, conditionCount), func(show Show) {
		c.list(kind, func(o Object, labels []string) {
			for _, is := range o.Conditions {
				show(1, is.labels(labels)...)
			}
		})
	})
	c.set.Live(statusName(kind, conditionSeconds), func(show Show) {
		now := c.now()
		c.list(kind, func(o Object, labels []string) {
			for _, is := range o.Conditions {
				show(max(now.Sub(is.Since).Seconds(), 0), is.labels(labels)...)
			}
		})
	})
	c.set.Live(statusName(kind, terminatingSeconds), func(show Show) {
		now := c.now()
		c.list(kind, func(o Object, labels []string) {
			if !o.Deleted.IsZero() {
				show(max(now.Sub(o.Deleted).Seconds(), 0), labels...)
			}
		})
	})
}

func (c Condition) labels(object []string) []string {
	return append(object, "type", c.Type, "status", c.Status, "reason", c.Reason)
}

// list calls do with every object that the metrics of a kind show, and the labels that name it there.
func (c *Conditions) list(kind Tracked, do func(o Object, labels []string)) {
	c.mu.Lock()
	all := make([]Object, 0, len(c.seen))
	for key, o := range c.seen {
		if kind == "" || key.kind == kind {
			all = append(all, o)
		}
	}
	c.mu.Unlock()
	for _, o := range all {
		labels, older := c.describe(o)
		if kind == "" {
			if labels = older; older == nil {
				continue
			}
		}
		do(o, append(labels, "name", o.Name, "namespace", o.Namespace))
	}
}

// each measures under the kind's own name and, where there is one, the older name for all kinds.
func (c *Conditions) each(o Object, suffix string, v float64, measure func(*Set, Name, float64, ...string), labels ...string) {
	own, older := c.describe(o)
	measure(c.set, statusName(o.Kind, suffix), v, append(own, labels...)...)
	if older != nil {
		measure(c.set, statusName("", suffix), v, append(older, labels...)...)
	}
}

// describe returns the labels that tell what an object is, in its kind's own metrics and in the older ones.
func (c *Conditions) describe(o Object) (own, older []string) {
	for _, t := range c.set.kinds() {
		if t.kind != o.Kind {
			continue
		}
		for _, key := range t.extra {
			own = append(own, whole(key), o.Labels[key])
		}
		if t.oldest != "" {
			older = []string{"group", t.group, "kind", t.oldest}
		}
	}
	return own, older
}
