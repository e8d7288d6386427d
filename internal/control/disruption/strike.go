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

// strike notes that a replacement of a pool came to nothing, for this process and the next (T24).
func (l *Loop) strike(ctx context.Context, view *state.View, pool, why string) {
	why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
	count := l.brake.failed(pool, l.version(view, pool), why, l.Clock.Now())
	l.noteStrikes(ctx, pool)
	l.speaker.struck(view, pool, count)
}

// takeOver reads what the process before has written on pools, and forgets what is over.
func (l *Loop) takeOver(ctx context.Context, view *state.View) {
	names := make([]string, len(view.World.Pools))
	for i, p := range view.World.Pools {
		names[i] = p.Name
	}
	l.brake.restore(names, func(pool string) string {
		if p := view.Pool(pool); p != nil {
			return p.Object.Annotations[karpv1.FailedReplacementsAnnotationKey]
		}
		return ""
	})
	for _, pool := range l.brake.forget(func(pool string) bool { return view.Pool(pool) != nil }, l.Clock.Now()) {
		l.noteStrikes(ctx, pool)
	}
}

// noteStrikes writes on a pool what the brake knows of it. Without it only a process that takes over would know less.
func (l *Loop) noteStrikes(ctx context.Context, pool string) {
	p := l.Mirror.View().Pool(pool)
	if p == nil {
		return
	}
	err := change(ctx, l, p.Object, control.Patch, func(o *karpv1.NodePool) {
		if text := l.brake.text(pool); text != "" {
			control.Annotate(o, karpv1.FailedReplacementsAnnotationKey, text)
		} else {
			delete(o.Annotations, karpv1.FailedReplacementsAnnotationKey)
		}
	})
	if err != nil && !errors.Is(err, errGone) {
		l.Log.Error("could not write down failed replacements", "NodePool", pool, "error", err)
	}
}
