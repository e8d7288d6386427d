package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
)

// clusterPools answers from the cluster, for the time of one request.
type clusterPools struct {
	ctx    context.Context
	reader client.Reader
	known  map[string]*string // nil for a pool that does not exist
}

func poolsFrom(reader client.Reader) func(context.Context) convert.Pools {
	return func(ctx context.Context) convert.Pools {
		return &clusterPools{ctx: ctx, reader: reader, known: map[string]*string{}}
	}
}

// ExpireAfter implements convert.Pools.
func (p *clusterPools) ExpireAfter(name string) (text string, found bool, err error) {
	known, asked := p.known[name]
	if !asked {
		pool := &karpv1.NodePool{}
		err := p.reader.Get(p.ctx, client.ObjectKey{Name: name}, pool)
		switch {
		case err == nil:
			text := pool.Spec.Template.Spec.ExpireAfter.String()
			known = &text
		case !apierrors.IsNotFound(err):
			return "", false, fmt.Errorf("from the API server: %w", err)
		}
		p.known[name] = known
	}
	if known == nil {
		return "", false, nil
	}
	return *known, true, nil
}
