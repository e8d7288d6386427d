// Command image makes the container image of the program without a container engine: for each architecture a static binary,
// built so that the same source gives the same bytes, a list of what is in it (SPDX), and an OCI image layout that registries
// and engines take. Nothing in the image but the binary and the CA roots.
//
// Usage:
//
//	go run ./tools/image [-version V] [-arch amd64,arm64] [-out artifacts/image] [-roots FILE] [-verify]
//
// With -verify everything is built twice and compared.
package main

import (
	"bytes"
	"context"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

// recipe is what an image is made from.
type recipe struct {
	version, out, roots string
	archs               []string
	verify              bool
}

func main() {
	r := recipe{}
	archs := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	flag.StringVar(&r.version, "version", "unknown", "version that the program says it has, and the tag of the image")
	flag.StringVar(&r.out, "out", filepath.Join("artifacts", "image"), "folder to write to")
	flag.StringVar(&r.roots, "roots", "/etc/ssl/certs/ca-certificates.crt", "CA roots in PEM form, by which AWS is trusted")
	flag.BoolVar(&r.verify, "verify", false, "build everything twice and compare")
	flag.Parse()
	r.archs = strings.Split(*archs, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// tag is what registries take as one.
var tag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func (r *recipe) run(ctx context.Context) error {
	if !tag.MatchString(r.version) {
		return fmt.Errorf("-version %q: must be a tag that registries take: letters, digits, _, . and -, at most 128 of them", r.version)
	}
	roots, err := os.ReadFile(r.roots)
	if err != nil {
		return fmt.Errorf("reading the CA roots (Debian's package ca-certificates has them): %w", err)
	}
	var parts []part
	for _, arch := range r.archs {
		if machines[arch] == 0 {
			return fmt.Errorf("-arch %q: must be amd64 or arm64", arch)
		}
		file := filepath.Join(r.out, "karpenter-linux-"+arch)
		if err := build(ctx, file, arch, r.version); err != nil {
			return err
		}
		if err := check(file, arch); err != nil {
			return err
		}
		if r.verify {
			if err := rebuild(ctx, file, arch, r.version); err != nil {
				return err
			}
		}
		binary, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		list, err := bill(file, r.version)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file+".spdx.json", list, 0o644); err != nil {
			return err
		}
		parts = append(parts, part{arch: arch, binary: binary, roots: roots})
	}
	if err := os.WriteFile(filepath.Join(r.out, "ca-certificates.crt"), roots, 0o644); err != nil { // for the Dockerfile
		return err
	}
	digest, err := layout(filepath.Join(r.out, "oci"), r.version, parts)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s, %s\n", filepath.Join(r.out, "oci"), strings.Join(r.archs, " and "), digest)
	return nil
}

// build makes a static binary that depends on the source, the toolchain and the version only: no paths, no time, no state of the
// working copy.
func build(ctx context.Context, file, arch, version string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+version, "-o", absolute, "karpenter/cmd/karpenter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for %s: %w", arch, err)
	}
	return nil
}

// machines are what the headers of a binary call its architecture.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// check makes sure that a binary runs on an architecture, and in an image with nothing else in it.
func check(file, arch string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("reading the headers of %s: %w", file, err)
	}
	defer f.Close()
	if f.Machine != machines[arch] {
		return fmt.Errorf("%s was built for %s, not for %s", file, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: it asks for a dynamic linker, which the image does not have", file)
		}
	}
	return nil
}

// rebuild builds again and compares.
func rebuild(ctx context.Context, file, arch, version string) error {
	again := file + ".again"
	defer os.Remove(again)
	if err := build(ctx, again, arch, version); err != nil {
		return err
	}
	first, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	second, err := os.ReadFile(again)
	if err != nil {
		return err
	}
	if !bytes.Equal(first, second) {
		return fmt.Errorf("two builds for %s differ: the build is not reproducible", arch)
	}
	return nil
}
