package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// part is the image of one architecture.
type part struct {
	arch          string
	binary, roots []byte
	file          string // that binary was read from
}

// epoch is the time of an image that is made from no commit in particular: it must not depend on when it was made.
var epoch = time.Unix(0, 0).UTC()

// user is whom the program runs as: the chart's user.
const user = "65532:65532"

// Media types of OCI images.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// store is the folder of an image layout.
type store string

// put writes a blob under its digest.
func (s store) put(kind string, content []byte) (descriptor, error) {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	folder := filepath.Join(string(s), "blobs", "sha256")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return descriptor{}, err
	}
	err := os.WriteFile(filepath.Join(folder, name), content, 0o644)
	return descriptor{MediaType: kind, Digest: "sha256:" + name, Size: len(content)}, err
}

func (s store) putJSON(kind string, value any) (descriptor, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return s.put(kind, raw)
}

// layout writes an image of several architectures and returns its digest.
func layout(dir, version string, when time.Time, parts []part) (string, error) {
	s := store(dir)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	index := manifest{SchemaVersion: 2, MediaType: typeIndex}
	for _, p := range parts {
		one, err := s.image(version, when, p)
		if err != nil {
			return "", fmt.Errorf("writing the image for %s: %w", p.arch, err)
		}
		index.Manifests = append(index.Manifests, one)
	}
	all, err := s.putJSON(typeIndex, index)
	if err != nil {
		return "", err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	raw, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{all}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), raw, 0o644); err != nil {
		return "", err
	}
	return all.Digest, os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
}

// image writes the image of one architecture.
func (s store) image(version string, when time.Time, p part) (descriptor, error) {
	plain, packed, err := layer(p, when)
	if err != nil {
		return descriptor{}, err
	}
	blob, err := s.put(typeLayer, packed)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(plain)
	config, err := s.putJSON(typeConfig, map[string]any{
		"architecture": p.arch, "os": "linux", "created": when.Format(time.RFC3339),
		"config": map[string]any{
			"User": user, "Entrypoint": []string{"/karpenter"}, "Cmd": []string{"controller"}, "WorkingDir": "/",
			"Labels": map[string]string{"org.opencontainers.image.version": version, "org.opencontainers.image.title": "karpenter"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return descriptor{}, err
	}
	one, err := s.putJSON(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: &config, Layers: []descriptor{blob}})
	one.Platform = &platform{p.arch, "linux"}
	return one, err
}

// layer is the only layer, as an archive and packed.
func layer(p part, when time.Time) (plain, packed []byte, err error) {
	plain, err = pack(when, []entry{
		{"etc/", 0o755, nil},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, p.roots},
		{"karpenter", 0o755, p.binary},
	})
	if err != nil {
		return nil, nil, err
	}
	packed, err = squeeze(plain)
	return plain, packed, err
}
