package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certLifetime outlives any test run and any laptop cluster that is kept for a while; a folder whose certificates
// have expired is given new ones at the next start.
const certLifetime = 5 * 365 * 24 * time.Hour

// renewBefore is how long before its end a certificate is made anew at a start.
const renewBefore = 30 * 24 * time.Hour

// authority signs the certificates of one plane.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

// identity is what a certificate says: a user and its groups for clients, names and addresses for servers.
type identity struct {
	file   string
	user   string
	groups []string
	hosts  []string
}

// pair names the files of one certificate and its key.
type pair struct{ cert, key string }

// openAuthority reads the authority kept in dir, or makes one. A plane that is started again on the same folder
// keeps its authority, so that kubeconfigs handed out before go on working.
func openAuthority(dir string, now time.Time) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the certificate folder: %w", err)
	}
	a := &authority{dir: dir, now: now}
	files := a.pair("ca")
	cert, key, err := readPair(files)
	if err == nil && now.Before(cert.NotAfter.Add(-renewBefore)) {
		a.cert, a.key = cert, key
		return a, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the authority in %s: %w", dir, err)
	}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	template, err := a.template(identity{user: "karpenter-local-ca"})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parsing the authority: %w", err)
	}
	return a, writePair(files, der, a.key)
}

// issue writes a certificate for both client and server use, and returns its files.
func (a *authority) issue(id identity) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making the key of %s: %w", id.file, err)
	}
	template, err := a.template(id)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing the certificate of %s: %w", id.file, err)
	}
	files := a.pair(id.file)
	return files, writePair(files, der, key)
}

func (a *authority) pair(name string) pair {
	return pair{cert: filepath.Join(a.dir, name+".crt"), key: filepath.Join(a.dir, name+".key")}
}

func (a *authority) template(id identity) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id.user, Organization: id.groups},
		NotBefore:    a.now.Add(-time.Hour), // clocks of a laptop and its virtual machines may differ
		NotAfter:     a.now.Add(certLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template, nil
}

func readPair(files pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, err := os.ReadFile(files.cert)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := os.ReadFile(files.key)
	if err != nil {
		return nil, nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, fmt.Errorf("%s or %s holds no PEM block", files.cert, files.key)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	return cert, key, err
}

func writePair(files pair, der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", files.key, err)
	}
	if err := os.WriteFile(files.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	if err := os.WriteFile(files.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}
