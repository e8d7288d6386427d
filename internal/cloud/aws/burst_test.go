package aws

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// bubbleClock is the time of a synctest bubble, which passes when everybody waits.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time                         { return time.Now() }
func (bubbleClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// inProcess hands requests to the AWS simulator without a socket, on which a bubble's time could not pass.
type inProcess struct{ handler http.Handler }

func (p inProcess) Do(r *http.Request) (_ *http.Response, err error) {
	defer func() {
		if cut := recover(); cut != nil {
			err = errCut
		}
	}()
	in := r.Clone(r.Context())
	in.Body = http.NoBody
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
	}
	answer := httptest.NewRecorder()
	p.handler.ServeHTTP(answer, in)
	return answer.Result(), nil
}

// bubbleWorld is a world in a synctest bubble, in which AWS limits calls as it really does.
func bubbleWorld(t *testing.T) *testWorld {
	w := newWorldAt(t, bubbleClock{}, func(sim *simaws.Sim) (string, aws.HTTPClient) {
		return "http://aws.local", inProcess{sim.Handler()}
	}, func(s *simaws.Options, _ *Options) { s.Throttle = true })
	w.load()
	time.Sleep(5 * time.Minute) // what loading took from the limits comes back
	return w
}

// burst launches every batch at once, each with the patience of a launch loop, and returns how long the last one took.
func burst(w *testWorld, batches []cloud.Batch) (took time.Duration) {
	began := time.Now()
	var wg sync.WaitGroup
	for _, b := range batches {
		wg.Go(func() {
			wait := time.Duration(0)
			for {
				results := w.Launch(w.ctx, b)
				err := results[0].Err
				if err == nil {
					given(w.t, results)
					return
				}
				response := cloud.ClassOf(err).Response()
				if response.GiveUp {
					w.t.Error(err)
					return
				}
				wait = min(max(2*wait, response.First), response.Most)
				time.Sleep(wait)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// different is n claims of which no two ask for the same.
func (w *testWorld) different(n int) []cloud.Batch {
	var batches []cloud.Batch
	for i := range n {
		b := w.batch(fmt.Sprintf("d%04d", i), 1, spotOnly, typeIs("m5.large", "c5.large", "r5.large"))
		b.Claims[0].Spec.Resources.Requests["cpu"] = *resource.NewMilliQuantity(int64(500+i), resource.DecimalSI)
		batches = append(batches, b)
	}
	return batches
}

// fleetRate and fleetBurst are the limits of the AWS simulator for CreateFleet, which are those that AWS documents for calls of
// its kind.
const (
	fleetRate  = 5
	fleetBurst = 100
)

// TestAWS_2_7_ThrottledBurst is the bar for 1,000 claims that share nothing: within 1.3 times what AWS allows, without a storm
// of refused calls, and without describing anything over and over.
func TestAWS_2_7_ThrottledBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		claims := usually(400, 1000)
		allowed := time.Duration(claims-fleetBurst) * time.Second / fleetRate
		fleets, describes := w.called("CreateFleet"), w.called("DescribeInstances")
		took := burst(w, w.different(claims))
		fleets, describes = w.called("CreateFleet")-fleets, w.called("DescribeInstances")-describes
		t.Logf("%d claims in %v of %v that AWS allows: %d CreateFleet, %d DescribeInstances", claims, took.Round(time.Second), allowed, fleets, describes)
		if took > allowed*13/10 {
			t.Errorf("took %v, at most 1.3 times %v wanted", took, allowed)
		}
		if fleets > 3*claims {
			t.Errorf("%d CreateFleet calls for %d fleets: most were refused", fleets, claims)
		}
		if describes > claims/20 {
			t.Errorf("%d DescribeInstances calls: a storm", describes)
		}
		if n := len(w.living()); n != claims {
			t.Errorf("%d instances for %d claims", n, claims)
		}
	})
}

// TestAWS_2_7_EqualBurst is the bar for 1,000 claims that ask for the same: at most 40 calls, which AWS takes at once.
func TestAWS_2_7_EqualBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		var claims []*karpv1.NodeClaim
		for i := range 1000 {
			claims = append(claims, w.claim(fmt.Sprintf("web-%d", i), spotOnly, typeIs("m5.large", "c5.large", "r5.large")))
		}
		var batches []cloud.Batch
		index := map[string]int{}
		for i, id := range cloud.Divide("plan", claims) {
			claims[i].Annotations = map[string]string{cloud.BatchAnnotationKey: id}
			at, ok := index[id]
			if !ok {
				at = len(batches)
				index[id] = at
				batches = append(batches, cloud.Batch{ID: id})
			}
			batches[at].Claims = append(batches[at].Claims, claims[i])
		}
		fleets, templates, describes := w.called("CreateFleet"), w.called("CreateLaunchTemplate"), w.called("DescribeInstances")
		took := burst(w, batches)
		fleets, templates, describes = w.called("CreateFleet")-fleets, w.called("CreateLaunchTemplate")-templates, w.called("DescribeInstances")-describes
		t.Logf("1000 equal claims in %v: %d CreateFleet, %d CreateLaunchTemplate, %d DescribeInstances", took, fleets, templates, describes)
		if fleets > 40 || templates > 2 || describes > 0 || took > time.Second {
			t.Error("at most 40 fleets, 2 templates and no describing, at once")
		}
		if n := len(w.living()); n != 1000 {
			t.Errorf("%d instances for 1000 claims", n)
		}
	})
}

// TestAWS_2_7_TaggingBurst names 500 instances: AWS takes ten names a second.
func TestAWS_2_7_TaggingBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		const instances = 500
		var batches []cloud.Batch
		for i := range instances / 50 {
			batches = append(batches, w.batch(fmt.Sprint("b", i), 50, spotOnly, typeIs("m5.large")))
		}
		burst(w, batches)
		list := w.living()
		time.Sleep(time.Minute)
		describes := w.called("DescribeInstances")
		began := time.Now()
		var wg sync.WaitGroup
		for i, in := range list {
			wg.Go(func() {
				for w.Tag(w.ctx, in.ID, map[string]string{"Name": fmt.Sprint("node-", i)}) != nil {
					time.Sleep(5 * time.Second)
				}
			})
		}
		wg.Wait()
		took, allowed := time.Since(began), time.Duration(instances-100)*time.Second/10
		t.Logf("%d instances tagged in %v of %v that AWS allows, %d DescribeInstances", len(list), took.Round(time.Second), allowed, w.called("DescribeInstances")-describes)
		if took > allowed*13/10 || w.called("DescribeInstances")-describes > 40 {
			t.Error("too slow, or too many calls")
		}
		for _, in := range w.living() {
			if in.Tags["Name"] == "" {
				t.Fatalf("%s has no name", in.ID)
			}
		}
	})
}
