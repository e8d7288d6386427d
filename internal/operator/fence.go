package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// errNotLeading is the answer to a write by a process that may not lead any more.
var errNotLeading = errors.New("this process has not renewed its lease in time: another may lead, so nothing is written")

// fence keeps a process that does not lead, or that may have stopped leading without having noticed, from changing anything:
// a process that was paused for a minute wakes up in the middle of its work. A write goes out only if the lease was renewed
// so short a while ago that nobody else can hold it. A nil fence lets everything through.
type fence struct {
	now func() time.Time
	// renewed is when the last successful renewal was sent, in nanoseconds since begin.
	renewed atomic.Int64
	begin   time.Time
}

func newFence(now func() time.Time) *fence {
	f := &fence{now: now, begin: now()}
	f.renewed.Store(-int64(leaseDuration))
	return f
}

// check returns an error if the lease may have been lost.
func (f *fence) check() error {
	if f == nil || f.now().Sub(f.begin)-time.Duration(f.renewed.Load()) < renewDeadline {
		return nil
	}
	return errNotLeading
}

// watch notes renewals; it wraps the transport that the lease alone is reached by.
func (f *fence) watch(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		sent := f.now().Sub(f.begin)
		response, err := next.RoundTrip(request)
		if err == nil && !reading(request.Method) && response.StatusCode < http.StatusMultipleChoices {
			f.renewed.Store(int64(sent))
		}
		return response, err
	})
}

// guard refuses writes to the API server.
func (f *fence) guard(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		if !reading(request.Method) {
			if err := f.check(); err != nil {
				return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
			}
		}
		return next.RoundTrip(request)
	})
}

func reading(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// guardCalls refuses calls to AWS that change something.
func (f *fence) guardCalls(stack *middleware.Stack) error {
	err := stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("LeaderFence",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if action := awsmiddleware.GetOperationName(ctx); !asking(action) {
				if err := f.check(); err != nil {
					return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("%s: %w", action, err)
				}
			}
			return next.HandleFinalize(ctx, in)
		}), middleware.After)
	if err != nil {
		return fmt.Errorf("fencing calls to AWS: %w", err)
	}
	return nil
}

// asking says of an action of AWS that it changes nothing.
func asking(action string) bool {
	for _, verb := range []string{"Describe", "Get", "List", "Receive", "Assume"} {
		if strings.HasPrefix(action, verb) {
			return true
		}
	}
	return false
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }
