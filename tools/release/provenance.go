package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"
)

// statement says of files how they came about: an in-toto statement with SLSA provenance, as far as one is written here. It is not
// signed: whoever publishes a release signs it.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	Definition definition `json:"buildDefinition"`
	Run        runDetails `json:"runDetails"`
}

type definition struct {
	BuildType    string         `json:"buildType"`
	External     map[string]any `json:"externalParameters"`
	Internal     map[string]any `json:"internalParameters"`
	Dependencies []resource     `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder map[string]string `json:"builder"`
}

// provenance writes the statement about every file that was made before. It says nothing of the computer: who builds the same commit with
// the same Go and the same CA roots gets the same files, and the same statement.
func (r *recipe) provenance(context.Context, string) error {
	names, err := r.made()
	if err != nil {
		return err
	}
	roots, err := os.ReadFile(r.roots)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(roots)
	var systems []string
	for _, platform := range platforms {
		systems = append(systems, platform[0]+"/"+platform[1])
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{
			Definition: definition{
				BuildType: "urn:karpenter:make-release:v1",
				External: map[string]any{
					"version": r.version, "url": r.url, "sourceDateEpoch": r.when.Unix(), "commandLine": systems, "image": r.archs,
				},
				Internal: map[string]any{
					"go": runtime.Version(), "CGO_ENABLED": "0", "buildFlags": []string{"-trimpath", "-buildvcs=false"}, "ldflags": linkFlags(r.version),
					"committed": r.when.Format(time.RFC3339),
				},
				Dependencies: []resource{
					{Name: "source", Digest: map[string]string{"gitCommit": r.commit}},
					{Name: "CA roots of the image", Digest: map[string]string{"sha256": hex.EncodeToString(digest[:])}},
				},
			},
			Run: runDetails{Builder: map[string]string{"id": "urn:karpenter:make-release"}},
		},
	}
	for _, name := range names {
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("karpenter_%s.intoto.json", r.version), append(raw, '\n'))
}
