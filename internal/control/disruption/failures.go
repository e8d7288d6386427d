package disruption

import (
	"context"
	"errors"
	"strings"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/state"
)

// maxWhy is how much of a reason is kept: it is written on an object.
const maxWhy = 300

// replacementFailed notes that a replacement of a pool came to nothing, for this process and the next (T24).
func (l *Loop) replacementFailed(ctx context.Context, view *state.View, pool, why string) {
	why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
	count := l.breaker.failed(pool, l.version(view, pool), why, l.Clock.Now())
	l.noteFailures(ctx, pool)
	l.reporter.replacementsFail(view, pool, count)
}

// takeOver reads what the process before has written on pools, once, and forgets what is over.
func (l *Loop) takeOver(ctx context.Context, view *state.View) {
	if !l.tookOver {
		l.tookOver = true
		for _, p := range view.World.Pools {
			if pool := view.Pool(p.Name); pool != nil {
				l.breaker.restore(p.Name, pool.Object.Annotations[karpv1.FailedReplacementsAnnotationKey])
				l.promises.restore(p.Name, pool.Object.Annotations[karpv1.SavingsHorizonAnnotationKey])
			}
		}
	}
	for _, pool := range l.breaker.forget(func(pool string) bool { return view.Pool(pool) != nil }, l.Clock.Now()) {
		l.noteFailures(ctx, pool)
	}
}

// noteFailures writes on a pool what the circuit breaker knows of it.
func (l *Loop) noteFailures(ctx context.Context, pool string) {
	l.note(ctx, pool, karpv1.FailedReplacementsAnnotationKey, l.breaker.text(pool))
}

// note writes an annotation on a pool, or removes it if there is nothing to say. Without it only a process that takes over would
// know less.
func (l *Loop) note(ctx context.Context, pool, key, text string) {
	p := l.Mirror.View().Pool(pool)
	if p == nil {
		return
	}
	err := change(ctx, l, p.Object, control.Patch, func(o *karpv1.NodePool) {
		if text != "" {
			control.Annotate(o, key, text)
		} else {
			delete(o.Annotations, key)
		}
	})
	if err != nil && !errors.Is(err, errGone) {
		l.Log.Error("could not annotate a nodepool", "NodePool", pool, "annotation", key, "error", err)
	}
}
