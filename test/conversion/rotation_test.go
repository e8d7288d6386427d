package conversion

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const day = 24 * time.Hour

// clock is moved by the test. It starts so far in the past that a year's renewals end today, because the API server judges
// certificates by the real time.
type clock struct {
	mu      sync.Mutex
	now     time.Time
	waiters []chan time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiter := make(chan time.Time, 1)
	c.waiters = append(c.waiters, waiter)
	return waiter
}

// step moves the clock, wakes the webhook and waits until it has done what it wanted.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	for _, waiter := range c.waiters {
		waiter <- c.now
	}
	c.waiters = nil
	c.mu.Unlock()
	for {
		c.mu.Lock()
		idle := len(c.waiters) > 0
		c.mu.Unlock()
		if idle {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRotation_WhileConversionsRun renews the authority and the certificate under a stream of v1beta1 reads; none may fail.
func TestRotation_WhileConversionsRun(t *testing.T) {
	c := own(t)
	// 241 days after the beginning the fourth certificate has just been made, which is still good today; on day 245 the authority
	// is renewed, and on day 300 the certificate, by the new authority.
	clock := &clock{now: time.Now().Add(-301 * day)}
	if err := c.StartConversion(t.Context(), clock); err != nil {
		t.Fatal(err)
	}
	// Nobody can connect while the clock is that far behind.
	for range 242 {
		clock.step(day)
	}
	if err := c.AwaitConversion(t.Context()); err != nil {
		t.Fatal(err)
	}
	one := object("karpenter.sh/v1beta1", "NodePool", "rotation", tree{"template": tree{"spec": tree{"requirements": []any{}}}})
	c.create(t, one)

	ctx, cancel := context.WithCancel(t.Context())
	reads := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(one), in(one, "v1beta1")); err != nil {
				t.Errorf("read %d: %v", n, err)
			}
			n++
		}
		reads <- n
	}()
	authorities, certificate := state(t, c)
	bundles, certificates := 0, 0
	for range 59 {
		clock.step(day)
		nextAuthorities, nextCertificate := state(t, c)
		if !bytes.Equal(authorities, nextAuthorities) {
			bundles++
		}
		if !bytes.Equal(certificate, nextCertificate) {
			certificates++
		}
		authorities, certificate = nextAuthorities, nextCertificate
	}
	cancel()
	if n := <-reads; n < 100 || bundles == 0 || certificates == 0 {
		t.Errorf("%d reads, %d new bundles, %d new certificates", n, bundles, certificates)
	}
}

// state returns what the API server trusts and what the webhook shows.
func state(t *testing.T, c *cluster) (bundle, certificate []byte) {
	t.Helper()
	definition, secret := &apiextensionsv1.CustomResourceDefinition{}, &corev1.Secret{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, definition); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "karpenter-conversion"}, secret); err != nil {
		t.Fatal(err)
	}
	return definition.Spec.Conversion.Webhook.ClientConfig.CABundle, secret.Data["tls.crt"]
}
