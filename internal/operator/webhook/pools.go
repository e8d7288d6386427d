package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
)

// poolsKnown is how long an answer about a pool counts. The API server has every change of every claim converted for whoever may
// read it in v1beta1, so that a fleet that comes up asks about the same pool hundreds of times a second.
const poolsKnown = 500 * time.Millisecond

// maxPoolsKnown bounds what is remembered.
const maxPoolsKnown = 1000

// clusterPools answers from the cluster.
type clusterPools struct {
	reader client.Reader

	mu    sync.Mutex
	known map[string]lifetime
}

// lifetime is how long the nodes of a pool live, nil if there is no such pool, as of a moment.
type lifetime struct {
	text *string
	at   time.Time
}

func poolsFrom(reader client.Reader) func(context.Context) convert.Pools {
	p := &clusterPools{reader: reader, known: map[string]lifetime{}}
	return func(ctx context.Context) convert.Pools { return request{ctx, p} }
}

// request asks for the time of one request.
type request struct {
	ctx context.Context
	*clusterPools
}

// ExpireAfter implements convert.Pools.
func (r request) ExpireAfter(name string) (text string, found bool, err error) {
	r.mu.Lock()
	known, asked := r.known[name]
	stale := !asked || time.Since(known.at) > poolsKnown
	if asked && stale { // one asks again, and the others take the last answer until it is there
		r.known[name] = lifetime{known.text, time.Now()}
	}
	r.mu.Unlock()
	if stale {
		if known.text, err = r.ask(name); err != nil {
			return "", false, err
		}
	}
	if known.text == nil {
		return "", false, nil
	}
	return *known.text, true, nil
}

func (r request) ask(name string) (*string, error) {
	at, pool := time.Now(), &karpv1.NodePool{}
	err := r.reader.Get(r.ctx, client.ObjectKey{Name: name}, pool)
	if apierrors.IsNotFound(err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.known, name)
		return nil, nil // not remembered: it may come with the next object of the same manifest
	}
	if err != nil {
		return nil, fmt.Errorf("from the API server: %w", err)
	}
	text := pool.Spec.Template.Spec.ExpireAfter.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) > maxPoolsKnown {
		clear(r.known)
	}
	r.known[name] = lifetime{&text, at}
	return &text, nil
}
