package wait

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// NewQueue is client-go's queue of what is to be worked on, or one like it where time is simulated.
func NewQueue[K comparable](name string, c clock.WithTicker, limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
	if s, simulated := c.(Scheduler); simulated {
		q := &queue[K]{clock: s, limiter: limiter, dirty: map[K]bool{}, busy: map[K]bool{}, due: map[K]time.Time{}, asked: make(chan struct{})}
		s.Made(q)
		return q
	}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[K]{Name: name, Clock: c})
}

// Serve works on what comes to a queue of NewQueue, on so many at once, until the context ends.
func Serve[K comparable](ctx context.Context, c Clock, q workqueue.TypedInterface[K], workers int, do func(K)) {
	one := func(k K) {
		defer q.Done(k)
		do(k)
	}
	if simulated, ok := q.(*queue[K]); ok {
		for {
			simulated.clock.Await(Forever, func() bool { return q.Len() > 0 || ctx.Err() != nil })
			if ctx.Err() != nil {
				return
			}
			k := simulated.pop()
			simulated.clock.Go(func() { one(k) })
		}
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				k, shutdown := q.Get()
				if shutdown {
					return
				}
				one(k)
			}
		})
	}
	<-ctx.Done()
	q.ShutDown()
	all.Wait()
}

// queue is a queue in simulated time: what is added later than now is there when somebody looks after that time.
type queue[K comparable] struct {
	mu      sync.Mutex // while sources start, beside each other
	clock   Scheduler
	limiter workqueue.TypedRateLimiter[K]
	ready   []K
	// dirty is what is to be worked on, busy what is being worked on: nothing is given to two at a time.
	dirty, busy map[K]bool
	later       delayed[K]
	due         map[K]time.Time
	added       int
	asked       chan struct{}
	once        sync.Once
}

// take moves what is due to what is ready.
func (q *queue[K]) take() {
	for now := q.clock.Now(); len(q.later) > 0 && !q.later[0].at.After(now); {
		next := heap.Pop(&q.later).(entry[K])
		if q.due[next.key].Equal(next.at) {
			delete(q.due, next.key)
			q.add(next.key)
		}
	}
}

// Add implements workqueue.TypedInterface.
func (q *queue[K]) Add(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(k)
}

func (q *queue[K]) add(k K) {
	if q.dirty[k] {
		return
	}
	q.dirty[k] = true
	if !q.busy[k] {
		q.ready = append(q.ready, k)
	}
}

// Len implements workqueue.TypedInterface.
func (q *queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.take()
	return len(q.ready)
}

// pop takes the first that is ready.
func (q *queue[K]) pop() K {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.ready[0]
	q.ready = q.ready[1:]
	delete(q.dirty, k)
	q.busy[k] = true
	return k
}

// Get implements workqueue.TypedInterface, for the workers of others: they are told that there is nothing to do any more, because
// Serve does it. When the first one asks, all sources have started: which of them was first is chance, so what they have brought is put
// in order.
func (q *queue[K]) Get() (k K, shutdown bool) {
	q.once.Do(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		slices.SortFunc(q.ready, func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		slices.SortFunc(q.later, func(a, b entry[K]) int {
			return cmp.Or(a.at.Compare(b.at), strings.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key)))
		})
		for i := range q.later {
			q.later[i].n = i - len(q.later) // before all that comes
		}
		close(q.asked)
	})
	return k, true
}

// Asked is closed when the first worker has asked for something to do.
func (q *queue[K]) Asked() <-chan struct{} { return q.asked }

// Done implements workqueue.TypedInterface.
func (q *queue[K]) Done(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, k)
	if q.dirty[k] {
		q.ready = append(q.ready, k)
	}
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue[K]) AddAfter(k K, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d <= 0 {
		q.add(k)
		return
	}
	at := q.clock.Now().Add(d)
	if before, ok := q.due[k]; ok && !at.Before(before) {
		return
	}
	q.due[k] = at
	q.added++
	heap.Push(&q.later, entry[K]{k, at, q.added})
	q.clock.Wake(at)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue[K]) AddRateLimited(k K) { q.AddAfter(k, q.limiter.When(k)) }

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *queue[K]) Forget(k K) { q.limiter.Forget(k) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *queue[K]) NumRequeues(k K) int { return q.limiter.NumRequeues(k) }

// ShutDown implements workqueue.TypedInterface. Controllers call it from a goroutine of their own, some time after their context has
// ended; Serve ends with the context, so that nothing depends on when that is.
func (q *queue[K]) ShutDown() {}

// ShutDownWithDrain implements workqueue.TypedInterface.
func (q *queue[K]) ShutDownWithDrain() {}

// ShuttingDown implements workqueue.TypedInterface.
func (q *queue[K]) ShuttingDown() bool { return false }

type entry[K comparable] struct {
	key K
	at  time.Time
	n   int
}

// delayed is a heap by time, then by when it was added.
type delayed[K comparable] []entry[K]

func (d delayed[K]) Len() int { return len(d) }
func (d delayed[K]) Less(i, j int) bool {
	return d[i].at.Before(d[j].at) || d[i].at.Equal(d[j].at) && d[i].n < d[j].n
}
func (d delayed[K]) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *delayed[K]) Push(x any)   { *d = append(*d, x.(entry[K])) }
func (d *delayed[K]) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}
