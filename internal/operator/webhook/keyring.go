package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Lifetimes. The authority is renewed early enough that the certificate can follow at its own pace: the certificate is
// replaced leafRenew before its end, which is long before the old authority's.
const (
	caLife    = 365 * 24 * time.Hour
	caRenew   = 120 * 24 * time.Hour
	leafLife  = 90 * 24 * time.Hour
	leafRenew = 30 * 24 * time.Hour
	// settle is how long a new authority must be known to the API server before a certificate of it is used: longer than
	// any API server needs to see a change of a definition, and any replica to read the Secret.
	settle = time.Hour
	// skew is how much clocks may differ: what is made now is valid since then.
	skew = time.Hour
)

// The keys of the Secret.
const (
	caCertKey   = "ca.crt" // all trusted authorities, newest first
	caKeyKey    = "ca.key" // the key of the newest
	leafCertKey = "tls.crt"
	leafKeyKey  = "tls.key"
)

const authorityName = "karpenter-conversion-webhook"

// keyring is what the Secret holds.
type keyring struct {
	authorities []*x509.Certificate // newest first
	caKey       *ecdsa.PrivateKey   // of the newest
	leaf        *x509.Certificate
	leafKey     *ecdsa.PrivateKey
}

// parseKeyring reads a Secret's data.
func parseKeyring(data map[string][]byte) (*keyring, error) {
	ring := &keyring{}
	var err error
	if ring.authorities, err = parseCertificates(data[caCertKey]); err != nil {
		return nil, fmt.Errorf("%s: %w", caCertKey, err)
	}
	if ring.caKey, err = parseKey(data[caKeyKey], ring.authorities[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", caKeyKey, err)
	}
	leaves, err := parseCertificates(data[leafCertKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", leafCertKey, err)
	}
	ring.leaf = leaves[0]
	if ring.leafKey, err = parseKey(data[leafKeyKey], ring.leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", leafKeyKey, err)
	}
	return ring, nil
}

func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, certificate)
	}
	if len(out) == 0 {
		return nil, errors.New("holds no certificate")
	}
	return out, nil
}

func parseKey(text []byte, of *x509.Certificate) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no key")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(of.PublicKey) {
		return nil, errors.New("is not the key of the certificate")
	}
	return key, nil
}

// data is the opposite of parseKeyring.
func (r *keyring) data() (map[string][]byte, error) {
	caKey, err := x509.MarshalECPrivateKey(r.caKey)
	if err != nil {
		return nil, err
	}
	leafKey, err := x509.MarshalECPrivateKey(r.leafKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		caCertKey:   r.bundle(),
		caKeyKey:    pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: caKey}),
		leafCertKey: encode(r.leaf),
		leafKeyKey:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: leafKey}),
	}, nil
}

// bundle is what the API server must trust.
func (r *keyring) bundle() []byte { return encode(r.authorities...) }

func encode(certificates ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, certificate := range certificates {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	}
	return out.Bytes()
}

// serving is what is shown to the API server.
func (r *keyring) serving() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{r.leaf.Raw}, PrivateKey: r.leafKey, Leaf: r.leaf}
}

// renewed returns the keyring as it should be now: itself, or a new one with whatever is due. It does not change r, which is nil
// at the very beginning. trusted tells whether every definition already lists an authority.
func (r *keyring) renewed(hosts []string, now time.Time, trusted func(*x509.Certificate) bool) (*keyring, error) {
	out := &keyring{}
	if r != nil {
		*out = *r
		out.authorities = slices.DeleteFunc(slices.Clone(r.authorities), func(ca *x509.Certificate) bool { return !now.Before(ca.NotAfter) })
	}
	if len(out.authorities) == 0 || now.After(out.authorities[0].NotAfter.Add(-caRenew)) {
		ca, key, err := newAuthority(now)
		if err != nil {
			return nil, err
		}
		out.authorities, out.caKey = append([]*x509.Certificate{ca}, out.authorities...), key
	}
	usable := out.leaf != nil && now.Before(out.leaf.NotAfter) && out.signed() && covers(out.leaf, hosts)
	ca := out.authorities[0]
	settled := now.Sub(ca.NotBefore.Add(skew)) >= settle && trusted(ca)
	if !usable || settled && now.After(out.leaf.NotAfter.Add(-leafRenew)) {
		var err error
		if out.leaf, out.leafKey, err = newLeaf(ca, out.caKey, hosts, now); err != nil {
			return nil, err
		}
	}
	if r != nil && out.leaf == r.leaf && slices.Equal(out.authorities, r.authorities) {
		return r, nil
	}
	return out, nil
}

// signed reports whether one of the authorities has signed the certificate.
func (r *keyring) signed() bool {
	return slices.ContainsFunc(r.authorities, func(ca *x509.Certificate) bool { return r.leaf.CheckSignatureFrom(ca) == nil })
}

func covers(leaf *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return leaf.VerifyHostname(host) != nil })
}

func newAuthority(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: authorityName},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return issue(template, nil, nil)
}

func newLeaf(ca *x509.Certificate, caKey *ecdsa.PrivateKey, hosts []string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: hosts[0]},
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    hosts,
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	return issue(template, ca, caKey)
}

// issue makes a key and a certificate for it, signed by the parent, or by itself if there is none.
func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}
