package operator

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// errNotLeading is the answer to a write by a process that may not lead any more.
var errNotLeading = errors.New("this process has not renewed its lease in time: another may lead, so nothing is written")

// Fence is a process's fence where somebody else keeps the lease and the time: in a simulation.
type Fence struct{ fence }

// NewFence makes a fence that is down until the lease has been renewed.
func NewFence(now func() time.Time) *Fence {
	f := &Fence{fence{now: now, begin: now()}}
	f.renewed.Store(-int64(leaseDuration))
	return f
}

// Renewed tells of a renewal of the lease that was sent just now.
func (f *Fence) Renewed() { f.renewed.Store(int64(f.now().Sub(f.begin))) }

// Check returns an error if the lease may have been lost. A nil fence lets everything through.
func (f *Fence) Check() error {
	if f == nil {
		return nil
	}
	return f.check()
}

// Times of the lease.
const (
	LeaseDuration = leaseDuration
	RetryPeriod   = retryPeriod
)

// fence keeps a process that does not lead, or that may have stopped leading without having noticed, from changing anything:
// a process that was paused for a minute wakes up in the middle of its work. A write goes out only if the lease was renewed
// so short a while ago that nobody else can hold it. A nil fence lets everything through.
type fence struct {
	now func() time.Time
	// renewed is when the last successful renewal was sent, in nanoseconds since begin.
	renewed atomic.Int64
	begin   time.Time
}

func newFence(now func() time.Time) *fence { return &NewFence(now).fence }

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

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }
