package aws

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"karpenter/cloud"
)

// How long an answer of SSM counts: what names one image for good does not change; the others must be seen soon after AWS
// publishes a new image.
const (
	pinnedParameter = 24 * time.Hour
	movingParameter = 5 * time.Minute
)

// maxParameters bounds the memory of answers; a class asks for at most six.
const maxParameters = 2000

// parameters remembers what SSM answered.
type parameters struct {
	client *ssm.Client
	clock  Clock

	mu    sync.Mutex
	known map[string]parameter
}

// parameter is an answer; an empty value means that there is no such parameter.
type parameter struct {
	value string
	until time.Time
}

func newParameters(client *ssm.Client, clock Clock) *parameters {
	return &parameters{client: client, clock: clock, known: map[string]parameter{}}
}

// get returns the parameter's value, or "" if there is none of that name. Any other failure is an error: taking a refused
// call for a missing image would take the image from a class that has it.
func (p *parameters) get(ctx context.Context, name string, pinned bool) (string, error) {
	p.mu.Lock()
	hit, ok := p.known[name]
	p.mu.Unlock()
	if ok && p.clock.Now().Before(hit.until) {
		return hit.value, nil
	}
	value := ""
	out, err := p.client.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(name)})
	switch err = readError("read SSM parameter "+name, err); {
	case cloud.ClassOf(err) == cloud.NotFound:
		pinned = false
	case err != nil:
		return "", err
	case out.Parameter != nil:
		value = aws.ToString(out.Parameter.Value)
	}
	keep := movingParameter
	if pinned {
		keep = pinnedParameter
	}
	p.put(name, parameter{value, p.clock.Now().Add(keep)})
	return value, nil
}

func (p *parameters) put(name string, answer parameter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxParameters {
		now := p.clock.Now()
		for key, old := range p.known {
			if !now.Before(old.until) {
				delete(p.known, key)
			}
		}
		if len(p.known) >= maxParameters {
			clear(p.known)
		}
	}
	p.known[name] = answer
}
