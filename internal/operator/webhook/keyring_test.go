package webhook

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func always(*x509.Certificate) bool { return true }

func renew(t rapid.TB, ring *keyring, now time.Time, trusted func(*x509.Certificate) bool) *keyring {
	t.Helper()
	next, err := ring.renewed([]string{"karpenter.kube-system.svc", "karpenter.kube-system"}, now, trusted)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// verify does what the API server does when it connects.
func verify(leaf *x509.Certificate, trusted []*x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	for _, ca := range trusted {
		roots.AddCert(ca)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "karpenter.kube-system.svc", CurrentTime: now})
	return err
}

func TestKeyring_FirstOne(t *testing.T) {
	ring := renew(t, nil, start, always)
	for _, now := range []time.Time{start.Add(-skew), start, start.Add(leafLife - time.Minute)} {
		if err := verify(ring.leaf, ring.authorities, now); err != nil {
			t.Errorf("at %s: %v", now, err)
		}
	}
	if err := ring.leaf.VerifyHostname("karpenter.kube-system"); err != nil {
		t.Error(err)
	}
	if again := renew(t, ring, start.Add(24*time.Hour), always); again != ring {
		t.Error("renewed after a day")
	}
}

func TestKeyring_SecretRoundTrip(t *testing.T) {
	ring := renew(t, nil, start, always)
	data, err := ring.data()
	if err != nil {
		t.Fatal(err)
	}
	read, err := parseKeyring(data)
	if err != nil {
		t.Fatal(err)
	}
	if !read.leaf.Equal(ring.leaf) || !read.authorities[0].Equal(ring.authorities[0]) || !read.leafKey.Equal(ring.leafKey) || !read.caKey.Equal(ring.caKey) {
		t.Error("the keyring changed in the Secret")
	}
	other := renew(t, nil, start, always)
	otherData, err := other.data()
	if err != nil {
		t.Fatal(err)
	}
	for key := range data {
		for name, value := range map[string][]byte{"missing": nil, "garbage": []byte("x"), "of another": otherData[key]} {
			broken := map[string][]byte{}
			for k, v := range data {
				broken[k] = v
			}
			broken[key] = value
			_, err := parseKeyring(broken)
			if sameKey := name == "of another"; (err == nil) && !sameKey {
				t.Errorf("%s %s: accepted", key, name)
			}
		}
	}
}

func TestKeyring_LeafRenewal(t *testing.T) {
	ring := renew(t, nil, start, always)
	due := start.Add(leafLife - leafRenew + time.Minute)
	if early := renew(t, ring, due.Add(-2*time.Minute), always); early != ring {
		t.Error("renewed too early")
	}
	next := renew(t, ring, due, always)
	if next.leaf.Equal(ring.leaf) || !slices.Equal(next.authorities, ring.authorities) {
		t.Error("want a new certificate of the same authority")
	}
	moved, err := ring.renewed([]string{"other.kube-system.svc"}, start, always)
	if err != nil {
		t.Fatal(err)
	}
	if moved.leaf.VerifyHostname("other.kube-system.svc") != nil {
		t.Error("not renewed when the host name changed")
	}
}

func TestKeyring_AuthorityRenewal(t *testing.T) {
	now := start
	ring := renew(t, nil, now, always)
	old := ring.authorities[0]
	for len(ring.authorities) == 1 {
		now = now.Add(time.Hour)
		ring = renew(t, ring, now, always)
	}
	fresh := ring.authorities[0]
	if left := old.NotAfter.Sub(now); left > caRenew || left < caRenew-2*time.Hour {
		t.Errorf("a new authority %s before the old one ends, want %s", left, caRenew)
	}
	if ring.leaf.CheckSignatureFrom(old) != nil {
		t.Error("the certificate changed together with the authority")
	}
	// Nobody may trust it as long as the definitions do not list it.
	never := func(*x509.Certificate) bool { return false }
	for day := range 59 {
		if next := renew(t, ring, now.Add(time.Duration(day)*24*time.Hour), never); next.leaf.CheckSignatureFrom(old) != nil {
			t.Fatalf("day %d: signed by an authority that is not published", day)
		}
	}
	for ring.leaf.CheckSignatureFrom(fresh) != nil {
		now = now.Add(time.Hour)
		ring = renew(t, ring, now, always)
	}
	if len(ring.authorities) != 2 {
		t.Error("the old authority was dropped while replicas may still show its certificate")
	}
	now = old.NotAfter
	if ring = renew(t, ring, now, always); len(ring.authorities) != 1 {
		t.Errorf("%d authorities after the old one expired", len(ring.authorities))
	}
}

// replica is a process that reads the Secret now and then.
type replica struct{ leaf *x509.Certificate }

// A world of replicas that sync at odd times, some for hours not at all: whoever shows a certificate is trusted.
func TestKeyring_NoRequestIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		var secret *keyring
		var published []*x509.Certificate
		replicas := make([]replica, 3)
		trusted := func(ca *x509.Certificate) bool { return slices.ContainsFunc(published, ca.Equal) }
		for step := range 40 {
			now = now.Add(time.Duration(rapid.IntRange(1, 20*24*60).Draw(t, "minutes")) * time.Minute)
			// The longest that a replica stays away is shorter than leafRenew, which leaves room to take over the new one.
			for i := range replicas {
				secret = renew(t, secret, now, trusted)
				if i == 0 || step == 0 || rapid.Bool().Draw(t, "syncs") {
					replicas[i].leaf = secret.leaf
				}
				if i == 0 || rapid.Bool().Draw(t, "publishes") {
					published = secret.authorities
				}
			}
			for i, r := range replicas {
				if !now.Before(r.leaf.NotAfter) {
					replicas[i].leaf = secret.leaf // away for too long: like a restart
					continue
				}
				if err := verify(r.leaf, published, now); err != nil {
					t.Fatalf("step %d, replica %d: %v", step, i, err)
				}
			}
		}
	})
}
