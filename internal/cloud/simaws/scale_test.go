package simaws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"karpenter/test/harness/cores"
)

// TestThroughput: 2,000 DescribeInstances a second over 5,000 instances on two
// cores, through sockets. What counts is the time on those cores in the best of
// several short runs, because other work on the computer says nothing about this code.
func TestThroughput(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds; not with -short")
	}
	want := 2000.0
	if raceDetector {
		want = 200 // it makes everything some ten times slower
	}
	handler, ids := fullWorld(t, 5000)
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	best := 0.0
	for range 10 {
		best = max(best, rate(t, client, server.URL, ids))
		if best >= want {
			break
		}
	}
	t.Logf("%.0f DescribeInstances per second on two cores", best)
	if best < want {
		t.Errorf("at best %.0f DescribeInstances per second on two cores, want %.0f", best, want)
	}
}

// rate is how many calls two cores answer in a second, caller included.
func rate(t *testing.T, client *http.Client, url string, ids []string) float64 {
	t.Helper()
	const span = 500 * time.Millisecond
	var n atomic.Int64
	var group sync.WaitGroup
	begin, before := time.Now(), cores.Used(t)
	for worker := range 8 {
		group.Go(func() {
			for i := worker; time.Since(begin) < span; i += 8 {
				form := fmt.Sprintf("Action=DescribeInstances&Version=2016-11-15&InstanceId.1=%s&Filter.1.Name=instance-state-name&Filter.1.Value.1=pending&Filter.1.Value.2=running", ids[i%len(ids)])
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(form))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Authorization", authorization("test", "ec2"))
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), ids[i%len(ids)]) {
					t.Errorf("%d %s %v", resp.StatusCode, body, err)
					return
				}
				n.Add(1)
			}
		})
	}
	group.Wait()
	return 2 * float64(n.Load()) / (cores.Used(t) - before).Seconds()
}

// TestMemory: a world with 10,000 instances stays within 200 MB.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	handler, ids := fullWorld(t, 10000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := float64(after.HeapAlloc-before.HeapAlloc) / 1e6
	t.Logf("%d instances take %.0f MB", len(ids), used)
	if used > 200 {
		t.Errorf("%d instances take %.0f MB, want at most 200", len(ids), used)
	}
	runtime.KeepAlive(handler)
}

// TestConcurrentCalls mixes everything from many callers; the books must agree
// afterwards, and the race detector has something to look at.
func TestConcurrentCalls(t *testing.T) {
	w := newTestWorld(t, func(o *Options) { o.Watcher = &register{} })
	w.prepareLaunch()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.Run(ctx) })
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() {
			for i := range 8 {
				_, body := w.send("ec2", "CreateFleet", append(fleetPairs("tpl", "spot", 2, "m5.large@"+subnetA, "c5.large@"+subnetB), "ClientToken", fmt.Sprint(n, "-", i))...)
				for _, id := range launched(body) {
					w.send("ec2", "CreateTags", "ResourceId.1", id, "Tag.1.Key", "n", "Tag.1.Value", fmt.Sprint(n))
					w.send("ec2", "DescribeInstances", "InstanceId.1", id)
					if i%2 == 0 {
						w.send("ec2", "TerminateInstances", "InstanceId.1", id)
					}
				}
				w.send("ec2", "DescribeInstances", "Filter.1.Name", "tag:n", "Filter.1.Value.1", fmt.Sprint(n))
				w.send("sqs", "GetQueueAttributes", "QueueUrl", "q", "AttributeName.1", "All")
				w.send("iam", "ListInstanceProfiles")
				w.clock.Advance(time.Second)
			}
		})
	}
	callers.Wait()
	stop()
	group.Wait()
	w.Tick()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.books(); err != nil {
		t.Error(err)
	}
}
