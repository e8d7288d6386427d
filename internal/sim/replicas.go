package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"karpenter/internal/operator"
)

// lease says which process leads. Several processes keep to the times of the controller's own lease, and each has the controller's own
// fence before what it does. A single one that crashes is started again under its name, and goes on at once.
type lease struct {
	holder  *replica
	renewed time.Time
}

// until is when somebody else may take the lease.
func (l lease) until(now time.Time) time.Time {
	return l.renewed.Add(max(operator.LeaseDuration, now.Sub(l.renewed)))
}

// StartController has a process of the controller lead: the first of those that wait, or a new one. The one before it is ended, unless
// it only stands still and does not know better.
func (w *World) StartController() error {
	if old := w.replica; old != nil && !old.dead {
		if w.loop.now.Before(old.paused) {
			w.stale = append(w.stale, old)
		} else {
			w.end()
		}
	}
	first := w.replicas == 0
	for len(w.standby) < w.copies {
		if err := w.startReplica(); err != nil {
			return err
		}
	}
	r := w.standby[0]
	w.standby = w.standby[1:]
	w.started = append(w.started, w.loop.now)
	w.replica, w.lease = r, lease{r, w.loop.now}
	if r.fence != nil {
		r.fence.Renewed()
	}
	if first && w.copies > 1 {
		w.loop.start(w.elect)
	}
	return r.manager.lead(r.ctx)
}

// elect has the leader renew the lease, and those that have lost it notice.
func (w *World) elect() {
	for !w.closed {
		r := w.replica
		switch {
		case r.dead || w.loop.now.Before(r.paused):
			w.restart = w.lease.until(w.loop.now)
			w.loop.at(w.restart)
		default:
			w.lease.renewed = w.loop.now
			r.fence.Renewed()
		}
		w.stale = slices.DeleteFunc(w.stale, func(r *replica) bool {
			if w.loop.now.Before(r.paused) {
				return false
			}
			w.note("%s has lost the lease and ends", r.name)
			r.end()
			return true
		})
		w.pause(operator.RetryPeriod)
	}
}

// vacant says whether another process has to lead now.
func (w *World) vacant() bool {
	r := w.replica
	return r != nil && (r.dead || w.copies > 1 && w.loop.now.Before(r.paused)) && !w.loop.now.Before(w.restart) && !w.restart.IsZero() &&
		(w.copies == 1 || !w.loop.now.Before(w.lease.renewed.Add(operator.LeaseDuration)))
}

// process is the one of a name.
func (w *World) process(name string) *replica {
	if r := w.replica; r != nil && r.name == name {
		return r
	}
	for _, list := range [][]*replica{w.standby, w.stale} {
		for _, r := range list {
			if r.name == name {
				return r
			}
		}
	}
	return nil
}

// standStill has what a process does wait while it stands still.
func (w *World) standStill(r *replica) {
	if w.loop.runs != nil && w.loop.now.Before(r.paused) {
		w.loop.await(r.paused.Sub(w.loop.now), func() bool { return r.dead || !w.loop.now.Before(r.paused) })
	}
}

// leads holds what a process has done against S11: only the one that has the lease acts.
func (w *World) leads(r *replica, what string) {
	if w.copies > 1 && r != w.lease.holder {
		w.breached("S11", "%s by %s while %s leads", what, r.name, w.lease.holder.name)
	}
}

// end ends a process where it stands.
func (r *replica) end() {
	if !r.dead {
		r.dead = true
		r.cancel()
		r.cache.Stop()
	}
}

// hold has the watch of a kind stand still for a while, at the leader or at those that wait.
func (w *World) hold(kind string, d time.Duration, waiting bool) {
	at := w.loop.now.Add(d)
	w.loop.at(at)
	w.later = max(w.later, d)
	switch {
	case waiting:
		for _, r := range w.standby {
			r.held[kind] = at
		}
	case w.replica != nil:
		w.replica.held[kind] = at
	}
}

// behind says whether a process that runs has not been told of something by a watch that does.
func (w *World) behind(r *replica) bool {
	if w.loop.now.Before(r.paused) {
		return false
	}
	return r.cache.Behind(func(kind schema.GroupVersionKind) bool { return !w.stands(r, kind) })
}

// stands says whether nothing of a kind goes out to a process: something does already, its watch stands still, or it does itself.
func (w *World) stands(r *replica, kind schema.GroupVersionKind) bool {
	return r.coming[kind] || w.loop.now.Before(r.held[kind.Kind]) || w.loop.now.Before(r.paused)
}

func readReplicas(args []string) (func(*World) error, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	n, err := number(args[0])
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is no number of processes from 1 on", args[0])
	}
	return func(w *World) error {
		if w.replicas > 0 {
			return errors.New("the controller runs already; have several processes before the first time")
		}
		w.copies = n
		return nil
	}, nil
}

func readPause(args []string) (func(*World) error, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	d, err := duration(args[0])
	if err != nil {
		return nil, err
	}
	return func(w *World) error {
		if r := w.replica; r != nil && !r.dead {
			r.paused = w.loop.now.Add(d)
			w.loop.at(r.paused)
			w.note("%s stands still", r.name)
		}
		return nil
	}, nil
}
