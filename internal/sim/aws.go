package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/wait"
)

func (w *World) called(c simaws.Call) {
	if c.Code != "" {
		w.Faults++
	}
	w.note("aws %s:%s %d %s %s", c.Service, c.Action, c.Status, c.Code, c.Note)
}

// runAWS has instances start, join and end when their time comes.
func (w *World) runAWS() {
	var alarm time.Time
	for !w.closed {
		w.aws.Tick()
		w.loop.await(wait.Forever, func() bool {
			if w.closed {
				return true
			}
			due, ok := w.aws.Due()
			if ok && due.After(w.loop.now) && !due.Equal(alarm) {
				alarm = due
				w.loop.at(due)
			}
			return ok && !due.After(w.loop.now)
		})
	}
}

// transport is a replica's way to AWS.
type transport struct {
	*World
	replica *replica
}

// RoundTrip answers a request to AWS without a socket.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w, poll := t.World, r.Header.Get("X-Amz-Target") == "AmazonSQS.ReceiveMessage"
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if poll {
		body = bytes.ReplaceAll(body, []byte(`"WaitTimeSeconds":20`), []byte(`"WaitTimeSeconds":0`))
	}
	w.standStill(t.replica)
	if t.replica.dead {
		return nil, errDead
	}
	asked := w.asks(body)
	e := w.calling(r, body, asked)
	if w.effect(t.replica, &e) {
		return nil, errDead
	}
	send := func() (response *http.Response, err error) {
		defer func() {
			if recover() != nil { // the connection was dropped
				err = io.ErrUnexpectedEOF
			}
		}()
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, again)
		return answer.Result(), nil
	}
	response, err := send()
	if err == nil && poll && response.StatusCode == http.StatusOK && response.ContentLength < 50 {
		wait.For(t.replica.ctx, simClock{w.loop, nil}, 20*time.Second) // the context of the request ends in real time
		response, err = send()
	}
	if asked != nil {
		w.leads(t.replica, asked.action)
	}
	w.answered(asked)
	if e.after = true; w.effect(t.replica, &e) {
		return nil, errDead
	}
	return response, err
}

// kubelets plays the kubelets of the instances.
type kubelets World

// Joined implements simaws.Watcher.
func (k *kubelets) Joined(m simaws.Instance) {
	w := (*World)(k)
	if w.foreigners[m.InstanceID] {
		return
	}
	w.loop.start(func() {
		if m.Boot > 0 {
			w.must(w.back(m))
		} else {
			w.must(w.join(m))
		}
	})
}

// Left implements simaws.Watcher.
func (k *kubelets) Left(m simaws.Instance, reason string) {
	w := (*World)(k)
	if reason == "rebooting" {
		w.rebooting(m)
		return
	}
	delete(w.sick, m.NodeName)
	w.loop.start(func() {
		w.note("node %s left: %s", m.NodeName, reason)
		_ = w.kubelet.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.NodeName}})
	})
}

// vcpus is how many a type has.
func (w *World) vcpus(name string) int {
	if t := w.types.Type(name); t != nil {
		return t.VCPUs
	}
	return 0
}

// few is a catalogue of some families: types that are alike make no difference to what can go wrong, and each takes time.
var few = sync.OnceValues(func() (*catalog.Catalog, error) {
	all, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	return all.Only(region, func(t *catalog.Type) bool {
		return slices.Contains([]string{"m5", "c7i", "r7i"}, t.Family()) && !t.BareMetal && t.VCPUs <= 16
	})
})

// image is one that an instance can be started from.
func (w *World) image() string {
	id, err := w.aws.Image(region, "amazon-eks-node-al2023-x86_64-standard-1.37-v20250704")
	if err != nil || id == "" {
		w.fatal = fmt.Errorf("there is no image to start foreign instances from: %w", err)
	}
	return id
}
