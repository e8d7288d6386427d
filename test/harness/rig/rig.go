// Package rig is what the tests of reconcilers stand on: a manager that runs as long as its test, a client with which a
// reconciler is taken through its steps by hand, in the test's own time and to its death at any write, and what such tests ask
// afterwards: which events were told, what was counted. The API server behind it is package harness's, and real.
package rig

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"karpenter/internal/meter"
	"karpenter/internal/state/trim"
	"karpenter/test/harness"
)

// Manager is a manager with real caches, which keep what the program keeps. It serves nothing and says nothing.
func Manager(tb testing.TB, c *harness.Cluster) manager.Manager {
	tb.Helper()
	m, err := manager.New(rest.CopyConfig(c.Config), manager.Options{
		Scheme: harness.Scheme(), Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultTransform: trim.Object},
		Controller: config.Controller{SkipNameValidation: new(true)}, // every test has one of that name
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Run runs a manager until the test ends or stop is called, which returns when it has ended.
func Run(tb testing.TB, m manager.Manager) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Create makes an object, with its status if it has one.
func Create(tb testing.TB, c client.Client, obj client.Object) {
	tb.Helper()
	status := reflect.ValueOf(obj.DeepCopyObject()).Elem().FieldByName("Status")
	if err := c.Create(tb.Context(), obj); err != nil {
		tb.Fatal(err)
	}
	if !status.IsValid() || status.IsZero() {
		return
	}
	reflect.ValueOf(obj).Elem().FieldByName("Status").Set(status)
	if err := c.Status().Update(tb.Context(), obj); err != nil {
		tb.Fatal(err)
	}
}

// Sweep takes all objects of some kinds out of the API server, which a test has left there.
func Sweep(tb testing.TB, c client.Client, kinds ...client.ObjectList) {
	tb.Helper()
	ctx := context.Background() // the test's own ends before what cleans up after it
	for _, list := range kinds {
		if err := c.List(ctx, list); err != nil {
			tb.Error(err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error { return Vanish(ctx, c, o.(client.Object)) }); err != nil {
			tb.Error(err)
		}
	}
}

// Vanish deletes an object at once, whatever its finalizers; one that is not there may stay away.
func Vanish(ctx context.Context, c client.Client, obj client.Object) error {
	if len(obj.GetFinalizers()) > 0 {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(ctx, obj, patch); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, obj, client.GracePeriodSeconds(0)))
}

// Count is the sum of the series of a metric that have these labels, given in pairs; of histograms and summaries it is how
// often something was observed.
func Count(tb testing.TB, from prometheus.Gatherer, name meter.Name, labels ...string) (sum float64) {
	tb.Helper()
	families, err := from.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "karpenter_"+string(name) {
			continue
		}
		for _, m := range f.GetMetric() {
			if carries(m, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
					float64(m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount())
			}
		}
	}
	return sum
}

// carries says whether a series has all of these labels.
func carries(m *dto.Metric, labels []string) bool {
	has := map[string]string{}
	for _, l := range m.GetLabel() {
		has[l.GetName()] = l.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
