package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/control"
	"karpenter/internal/state"
	"karpenter/internal/web"
)

const (
	// historyName is the ConfigMap that the figures of charts are kept in, in the controller's own namespace, and historyKey where in it.
	// The chart grants rights on it by this name.
	historyName = "karpenter-dashboard-history"
	historyKey  = "history.json.gz"
	// historySaveEvery is how often it is written, and so what charts lack after a crash: some ten KiB at a time should not come often.
	historySaveEvery = 5 * time.Minute
	// historyLastSave is how long the last write may take, when the process ends: less than shutdownGrace.
	historyLastSave = 3 * time.Second
)

// historyKeeper takes figures for charts while this process leads, and keeps them where the next one to lead finds them. What does
// not work is told once, and tried again: nothing else depends on it.
type historyKeeper struct {
	*control.Loop
	history *web.History
	// view is the cluster; nil while it is not known.
	view func() *state.View
	// client writes, live reads from the API server itself: there is no cache of ConfigMaps.
	client client.Client
	live   client.Reader
	// namespace is where the ConfigMap is; "" keeps figures in memory only.
	namespace string
	clock     control.Clock
	log       *slog.Logger

	// object is the ConfigMap as it was last read or written, nil before; newest is that of the samples in it.
	object *corev1.ConfigMap
	newest time.Time
	tried  time.Time
	told   bool
}

// keepHistory hands what takes and keeps figures for charts to the manager.
func (w *wiring) keepHistory(history *web.History) error {
	k := &historyKeeper{
		history: history, client: w.m.GetClient(), live: w.m.GetAPIReader(), namespace: w.options.SystemNamespace, clock: w.clock, log: w.log.With("controller", "dashboard.history"),
		view: func() *state.View {
			if !w.mirror.Synced() {
				return nil
			}
			return w.mirror.View()
		},
	}
	k.Loop = w.dog.Guard(&control.Loop{Name: "dashboard.history", Clock: w.clock, Log: k.log, Do: k.step})
	if err := w.m.Add(k); err != nil {
		return fmt.Errorf("keeping the dashboard's history: %w", err)
	}
	return nil
}

// Start runs until the context ends, and then saves what has come since.
func (k *historyKeeper) Start(ctx context.Context) error {
	err := k.Loop.Start(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyLastSave)
	defer cancel()
	if k.object != nil {
		k.tell(k.save(last))
	}
	return err
}

func (k *historyKeeper) step(ctx context.Context) (time.Duration, error) {
	now := k.clock.Now()
	defer func() { k.history.Take(k.view(), now) }()
	switch {
	case k.namespace == "":
	case k.object == nil:
		k.tell(k.load(ctx))
		k.tried = now
	case now.Sub(k.tried) >= historySaveEvery:
		k.tell(k.save(ctx))
		k.tried = now
	}
	return web.SampleEvery, nil
}

// load reads what an earlier leader has kept. Something else in its place is as good as nothing, and will be replaced.
func (k *historyKeeper) load(ctx context.Context) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: historyName, Labels: map[string]string{"app.kubernetes.io/name": "karpenter"}}}
	if err := k.live.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", k.namespace, historyName, err)
	}
	k.object = object
	if object.ResourceVersion == "" {
		return nil
	}
	if err := k.history.Merge(object.BinaryData[historyKey], k.clock.Now()); err != nil {
		k.log.Warn("the dashboard's history is not what this program writes: it is ignored and will be replaced", "ConfigMap", k.namespace+"/"+historyName, "key", historyKey, "error", err)
	}
	return nil
}

// save writes the history if there is something new in it. Where somebody else was faster, what they have written counts too.
func (k *historyKeeper) save(ctx context.Context) error {
	newest := k.history.Newest()
	if !newest.After(k.newest) {
		return nil
	}
	err := k.write(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		if err = k.load(ctx); err == nil {
			err = k.write(ctx)
		}
	}
	if errors.Is(err, errNotLeading) {
		return nil // whoever leads now writes
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", k.namespace, historyName, err)
	}
	k.newest = newest
	return nil
}

func (k *historyKeeper) write(ctx context.Context) error {
	data, err := k.history.Encode()
	if err != nil {
		return err
	}
	object := k.object.DeepCopy()
	object.Data, object.BinaryData = nil, map[string][]byte{historyKey: data}
	if object.ResourceVersion == "" {
		err = k.client.Create(ctx, object)
	} else {
		err = k.client.Update(ctx, object)
	}
	if err == nil {
		k.object = object
	}
	return err
}

// tell logs the first of several failures.
func (k *historyKeeper) tell(err error) {
	if err != nil && !k.told {
		k.log.Warn("the dashboard's history is not kept and will begin anew with the next start; trying on", "error", err)
	}
	k.told = err != nil
}
