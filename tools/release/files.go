package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// chartVersion is the line of a Chart.yaml that says its version, appVersion that of the program.
var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): *"?([^"\s]+)"?$`)

// charts packs the charts as helm does, except that the same files give the same bytes.
func (r *recipe) charts(context.Context, string) error {
	for _, name := range []string{"karpenter", "karpenter-crd"} {
		files, err := tree(filepath.Join(r.root, "charts", name), name)
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(e entry) bool { // as charts/karpenter/.helmignore says
			return strings.HasSuffix(e.name, ".orig") || strings.HasSuffix(e.name, ".tmp") || strings.HasSuffix(e.name, "/.helmignore")
		})
		i := slices.IndexFunc(files, func(e entry) bool { return e.name == name+"/Chart.yaml" })
		if i < 0 {
			return fmt.Errorf("charts/%s has no Chart.yaml", name)
		}
		lines := chartVersion.FindAllSubmatch(files[i].content, -1)
		if len(lines) != 2 {
			return fmt.Errorf("charts/%s/Chart.yaml: must say version and appVersion", name)
		}
		for _, line := range lines {
			if got := string(line[2]); got != r.version {
				return fmt.Errorf("charts/%s/Chart.yaml: %s is %s, and the release is %s: they must be the same", name, line[1], got, r.version)
			}
		}
		packed, err := archive(r.when, files)
		if err != nil {
			return err
		}
		if err := r.write(fmt.Sprintf("%s-%s.tgz", name, r.version), packed); err != nil {
			return err
		}
	}
	return nil
}

// definitions joins the CRDs into one file for kubectl apply.
func (r *recipe) definitions(context.Context, string) error {
	names, err := filepath.Glob(filepath.Join(r.root, "api", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no CRDs", filepath.Join(r.root, "api", "crds"))
	}
	var all bytes.Buffer
	for _, name := range names { // sorted, says Glob
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n%s\n", strings.Trim(strings.TrimPrefix(string(content), "---\n"), "\n"))
	}
	return r.write(fmt.Sprintf("karpenter-crds_%s.yaml", r.version), all.Bytes())
}

// krew writes the manifest by which krew installs the command line as a plugin of kubectl.
func (r *recipe) krew(context.Context, string) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: karpenter
spec:
  version: v%s
  shortDescription: Explain, plan and watch Karpenter's nodes
  description: |
    Says why a pod is pending and why a node is still there, what a change
    would launch, remove and cost, and what the controller has decided.
    It reads the cluster as kubectl does, and changes nothing.
  platforms:
`, strings.TrimPrefix(r.version, "v"))
	for _, platform := range platforms {
		name := archiveName(r.version, platform[0], platform[1])
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, `  - selector:
      matchLabels:
        os: %s
        arch: %s
    uri: %s/%s
    sha256: %s
    bin: karpenter
    files:
    - from: karpenter
      to: .
    - from: LICENSE
      to: .
`, platform[0], platform[1], strings.TrimSuffix(r.url, "/"), name, sum)
	}
	return r.write("karpenter.krew.yaml", out.Bytes())
}

// sum is the SHA-256 of a file of the release.
func (r *recipe) sum(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:]), nil
}

// made are the names of the release's files so far, sorted.
func (r *recipe) made() ([]string, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// sums writes the sum of every file, as sha256sum reads it.
func (r *recipe) sums(context.Context, string) error {
	names, err := r.made()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, name := range names {
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, name)
	}
	return r.write("SHA256SUMS", out.Bytes())
}
