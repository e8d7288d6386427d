package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/wait"
)

const (
	// doubtEvery is how often the API server is asked for a claim whose creation got no answer, and doubtWait how long it may take to
	// say so: the pods that the claim is for wait meanwhile.
	doubtEvery = time.Second
	doubtWait  = 2 * time.Second
	// absentFor is how long a claim must have been absent before it counts as not created: a request that was cut off may still be on its
	// way through the API server at the first look.
	absentFor = 4 * time.Second
	// unseenFor is how long a claim that was created counts without any watch showing it before the API server is asked whether it is
	// still there (N15). One that came and went while a watch was down is shown by none.
	unseenFor = 15 * time.Second
)

// doubt is what is known of a claim whose creation got no answer.
type doubt struct {
	// next is when to look again, absent when it was first seen not to be there.
	next, absent time.Time
}

// doubt notes that a claim may have been created.
func (c *Creator) doubt(claim string) {
	if c.Live == nil {
		return
	}
	if c.doubts == nil {
		c.doubts = map[string]*doubt{}
	}
	c.doubts[claim] = &doubt{next: c.Clock.Now().Add(doubtEvery)}
}

// expect notes that a claim was created, which a watch is to show.
func (c *Creator) expect(claim string) {
	if c.Live == nil {
		return
	}
	if c.unseen == nil {
		c.unseen = map[string]time.Time{}
	}
	c.unseen[claim] = c.Clock.Now().Add(unseenFor)
}

// overdue lists the claims that should have been shown by now and were not; those that were are forgotten.
func (c *Creator) overdue() (due []string) {
	if len(c.unseen) == 0 {
		return nil
	}
	view, now := c.Mirror.View(), c.Clock.Now()
	for name, at := range c.unseen {
		switch n := view.Claim(name); {
		case n == nil || !n.Assumed:
			delete(c.unseen, name)
		case !now.Before(at):
			c.unseen[name] = now.Add(unseenFor)
			due = append(due, name)
		}
	}
	return due
}

// collect ends the counting of a claim that is gone although no watch has shown it. One that is there counts on, however late the watch is.
func (c *Creator) collect(name string, claim *karpv1.NodeClaim, err error) {
	if err == nil {
		c.Mirror.Assume(claim)
		c.Mirror.Wrote(claim)
	}
	if !apierrors.IsNotFound(err) {
		return // it is looked for again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unseen, name)
	c.Mirror.Refute(name)
	c.Log.Info("nodeclaim is gone and was never shown, planning for its pods again", "NodeClaim", name)
}

// Confirm lists the claims of a pool from the API server itself, and has those counted that no watch has shown yet: they may be of a process
// that led before this one. Whoever must not make one claim too many asks first.
func (c *Creator) Confirm(ctx context.Context, pool string) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := c.Live.List(ctx, list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		return nil, fmt.Errorf("listing the claims of pool %s: %w", pool, err)
	}
	view := c.Mirror.View()
	for i := range list.Items {
		if view.Claim(list.Items[i].Name) == nil {
			c.Mirror.Assume(&list.Items[i])
		}
	}
	return list.Items, nil
}

// TakeOver shows the mirror what the process that led before this one has written on claims last, which no watch may have shown yet: planned
// without that, pods get a second node and limits and budgets are overrun. Nothing is planned before. It is done once.
func (c *Creator) TakeOver(ctx context.Context) error {
	if c.Live == nil || c.tookOver.Load() {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(karpv1.SchemeGroupVersion.WithKind("NodeClaimList"))
	if err := c.Live.List(ctx, list); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	view := c.Mirror.View()
	news := slices.DeleteFunc(list.Items, func(o metav1.PartialObjectMetadata) bool {
		n := view.Claim(o.Name)
		return n != nil && n.Claim != nil && n.Claim.ResourceVersion == o.ResourceVersion
	})
	errs := make([]error, len(news))
	wait.Each(c.Clock, len(news), createWorkers, func(i int) {
		claim := &karpv1.NodeClaim{}
		if errs[i] = c.Live.Get(ctx, client.ObjectKey{Name: news[i].Name}, claim); errs[i] == nil {
			c.Mirror.Assume(claim)
			c.Mirror.Wrote(claim)
			c.mu.Lock()
			c.expect(claim.Name)
			c.mu.Unlock()
		}
		errs[i] = client.IgnoreNotFound(errs[i])
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reading claims: %w", err)
	}
	if len(news) > 0 {
		c.Log.Info("read nodeclaims that no watch had shown yet", "count", len(news))
	}
	c.tookOver.Store(true)
	return nil
}

// nextLook is how long it is until a claim in doubt is looked for again, at most so long.
func (c *Creator) nextLook(now time.Time, most time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.doubts {
		most = min(most, max(0, d.next.Sub(now)))
	}
	for _, at := range c.unseen {
		most = min(most, max(0, at.Sub(now)))
	}
	return most
}

// clear looks for the claims in doubt whose time has come. One that is there is in no doubt any more; one that has been absent for
// a while was not created, and its pods are planned anew.
func (c *Creator) clear(ctx context.Context) {
	c.mu.Lock()
	var due []string
	for name, d := range c.doubts {
		if !c.Clock.Now().Before(d.next) {
			due = append(due, name)
		}
	}
	unseen := c.overdue()
	c.mu.Unlock()
	if len(due)+len(unseen) == 0 {
		return
	}
	ctx, cancel := wait.Timeout(ctx, c.Clock, doubtWait)
	defer cancel()
	slices.Sort(due)
	slices.Sort(unseen)
	names := slices.Concat(due, unseen)
	wait.Each(c.Clock, len(names), createWorkers, func(i int) {
		claim := &karpv1.NodeClaim{}
		answer := c.Live.Get(ctx, client.ObjectKey{Name: names[i]}, claim)
		if i < len(due) {
			c.judge(names[i], answer)
		} else {
			c.collect(names[i], claim, answer)
		}
	})
}

// judge takes in what the API server has said about a claim in doubt.
func (c *Creator) judge(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, now := c.doubts[name], c.Clock.Now()
	switch {
	case err == nil:
		delete(c.doubts, name)
		return
	case apierrors.IsNotFound(err) && d.absent.IsZero():
		d.absent = now
	case apierrors.IsNotFound(err) && now.Sub(d.absent) >= absentFor:
		delete(c.doubts, name)
		c.Mirror.Refute(name)
		c.Log.Info("nodeclaim was not created, planning for its pods again", "NodeClaim", name)
		return
	}
	d.next = now.Add(doubtEvery)
}
