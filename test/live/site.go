package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
)

// region is where instances are launched.
const region = "us-west-2"

// site is a cluster to measure.
type site struct {
	*local.Cluster
	dir  string
	kept bool
}

// open starts a cluster whose default pool has no limits and keeps its nodes.
func (b *bench) open(ctx context.Context, boot time.Duration) (*site, error) {
	s, err := b.launch(ctx, local.Options{BootTime: boot, Provider: b.provider})
	if err != nil {
		return nil, err
	}
	if err := s.changePool(ctx, func(p *karpv1.NodePool) {
		p.Spec.Limits = nil
		p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
	}); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// launch starts a cluster in a new folder.
func (b *bench) launch(ctx context.Context, opts local.Options) (*site, error) {
	dir, err := os.MkdirTemp("", "karpenter-live-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the cluster: %w", err)
	}
	tell := func(string) {}
	if b.verbose {
		tell = func(text string) {
			if !strings.HasPrefix(text, "node ") { // there are hundreds
				b.note("%s", text)
			}
		}
	}
	opts.Binary, opts.Dir, opts.ClusterName, opts.Region = b.kube, dir, "my-cluster", region
	opts.Program, opts.Tell = b.controller, tell
	if opts.ControllersQPS == 0 { // what is measured is Karpenter, not what makes and binds pods
		opts.ControllersQPS, opts.ControllersBurst = 1000, 2000
	}
	opts.SchedulerQPS, opts.SchedulerBurst = 1000, 2000
	cluster, err := local.Start(ctx, opts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &site{Cluster: cluster, dir: dir, kept: b.kept}, nil
}

// close stops the cluster and removes it.
func (s *site) close() {
	_ = s.Stop()
	if s.kept {
		fmt.Printf("        the cluster's folder is %s\n", s.dir)
		return
	}
	_ = os.RemoveAll(s.dir)
}

func (s *site) changePool(ctx context.Context, change func(*karpv1.NodePool)) error {
	pool := &karpv1.NodePool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: "default"}, pool); err != nil {
		return fmt.Errorf("reading the default pool: %w", err)
	}
	before := pool.DeepCopy()
	change(pool)
	if err := s.Client.Patch(ctx, pool, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the default pool: %w", err)
	}
	return nil
}

// until asks again and again; whoever asks decides how much that costs.
func until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// seen is an object as a watch showed it, and when.
type seen struct {
	event watch.EventType
	obj   client.Object
	at    time.Time
}

// follow watches several kinds at once. Times are those of arrival here, because objects carry whole seconds only. A watch that
// the API server gives up, as it does when the computer is busy, is begun again without losing anything.
func (s *site) follow(ctx context.Context, kinds ...client.Object) (<-chan seen, error) {
	watched, err := cache.New(s.Config, cache.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	out := make(chan seen, 4096)
	send := func(event watch.EventType, object any) {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		select {
		case out <- seen{event, object.(client.Object), time.Now()}:
		case <-ctx.Done():
		}
	}
	for _, kind := range kinds {
		informer, err := watched.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { send(watch.Added, object) },
			UpdateFunc: func(_, object any) { send(watch.Modified, object) },
			DeleteFunc: func(object any) { send(watch.Deleted, object) },
		}); err != nil {
			return nil, fmt.Errorf("watching: %w", err)
		}
	}
	go func() { _ = watched.Start(ctx) }() // ends with ctx
	return out, nil
}
