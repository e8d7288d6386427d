package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/plug"
)

// Waits between attempts at what must succeed before anything else can be done.
const (
	firstAttempt = 200 * time.Millisecond
	lastAttempt  = 30 * time.Second
)

// persist tries until it succeeds or the context ends. Why it has not yet is logged and shown on /readyz: a process that says
// what it waits for is of more use than one that is started again and again.
func (p *process) persist(ctx context.Context, part string, try func(context.Context) error) error {
	for wait := firstAttempt; ; wait = min(2*wait, lastAttempt) {
		err := try(ctx)
		if err == nil {
			p.ready.done(part)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", part, context.Cause(ctx))
		}
		p.ready.waiting(part, err)
		p.log.Error("cannot start yet, trying again", "waiting-for", part, "error", err, "again-in", wait)
		if !sleep(ctx, p.clock, wait) {
			return fmt.Errorf("%s: %w", part, context.Cause(ctx))
		}
	}
}

// knownKinds has the manager ask for what the API server serves of each group before anything depends on the answer: one that is lost is
// no reason to end.
func knownKinds(mapper meta.RESTMapper, class cloud.Kind) error {
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"), karpv1.SchemeGroupVersion.WithKind(karpv1.NodePoolKind), class.GroupVersionKind,
	} {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return fmt.Errorf("asking the API server for kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(d):
		return true
	}
}

// errUpgraded ends a process whose knowledge of the control plane is out of date; the next one starts with the new.
var errUpgraded = errors.New("the control plane has another version than at the start")

// versionEvery is how often the control plane's version is looked at.
const versionEvery = 5 * time.Minute

// watchVersion returns errUpgraded when the API server's version has changed: images are chosen by it.
func (p *process) watchVersion(ctx context.Context, client discovery.ServerVersionInterface) error {
	first := ""
	for {
		switch now, err := plug.ServerVersion(client); {
		case err != nil: // others say that the API server is away
		case first == "":
			first = now
		case now != first:
			return fmt.Errorf("%w: %s, it was %s", errUpgraded, now, first)
		}
		if !sleep(ctx, p.clock, versionEvery) {
			return nil
		}
	}
}
