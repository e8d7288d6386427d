package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// program is one to build: the package, for which system and architecture, into which file.
type program struct {
	pkg, system, arch string
	file              string
}

const (
	commandLine = "karpenter/cmd/karpenter"
	controller  = "karpenter/cmd/controller"
)

// platforms are those of the command line.
var platforms = [][2]string{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}}

// linkFlags leave out of a program what is not needed to run it, and give it its version.
func linkFlags(version string) string { return "-s -w -buildid= -X main.version=" + version }

// build makes a static binary that depends on the source, the toolchain and the version only: no paths, no time, no state of the
// working copy.
func build(ctx context.Context, p program, version string) error {
	if err := os.MkdirAll(filepath.Dir(p.file), 0o755); err != nil {
		return err
	}
	absolute, err := filepath.Abs(p.file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", linkFlags(version), "-o", absolute, p.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s for %s/%s: %w", p.pkg, p.system, p.arch, err)
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
func rebuild(ctx context.Context, p program, version string) error {
	again := p
	again.file += ".again"
	defer os.Remove(again.file)
	if err := build(ctx, again, version); err != nil {
		return err
	}
	first, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	second, err := os.ReadFile(again.file)
	if err != nil {
		return err
	}
	if !bytes.Equal(first, second) {
		return fmt.Errorf("two builds of %s for %s differ: the build is not reproducible", p.pkg, p.arch)
	}
	return nil
}

// commandLines packs the command line for every platform, with a list of what is in it beside it.
func (r *recipe) commandLines(ctx context.Context, work string) error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		p := program{pkg: commandLine, system: platform[0], arch: platform[1]}
		p.file = filepath.Join(work, p.system+"-"+p.arch, "karpenter")
		r.tell("building the command line for %s/%s", p.system, p.arch)
		if err := r.build(ctx, p, r.version); err != nil {
			return err
		}
		binary, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		packed, err := archive(r.when, []entry{{"LICENSE", 0o644, license}, {"karpenter", 0o755, binary}})
		if err != nil {
			return err
		}
		if err := r.write(archiveName(r.version, p.system, p.arch), packed); err != nil {
			return err
		}
		if err := r.bill(fmt.Sprintf("karpenter_%s_%s_%s", r.version, p.system, p.arch), p.file); err != nil {
			return err
		}
	}
	return nil
}

// archiveName is the file that holds the command line for a platform.
func archiveName(version, system, arch string) string {
	return fmt.Sprintf("karpenter_%s_%s_%s.tar.gz", version, system, arch)
}

// bill writes what a program was built from.
func (r *recipe) bill(name, file string) error {
	list, err := bill(file, name, r.version, r.when)
	if err != nil {
		return err
	}
	return r.write(name+".spdx.json", list)
}

// controllers builds what the image holds, and returns it by architecture.
func (r *recipe) controllers(ctx context.Context, folder string) ([]part, error) {
	roots, err := os.ReadFile(r.roots)
	if err != nil {
		return nil, fmt.Errorf("reading the CA roots (Debian's package ca-certificates has them): %w", err)
	}
	if len(bytes.TrimSpace(roots)) == 0 {
		return nil, fmt.Errorf("%s: no CA roots in it: AWS could not be trusted", r.roots)
	}
	var parts []part
	for _, arch := range r.archs {
		p := program{pkg: controller, system: "linux", arch: arch, file: filepath.Join(folder, "karpenter-linux-"+arch)}
		r.tell("building the controller for linux/%s", arch)
		err := r.build(ctx, p, r.version)
		if err == nil {
			err = check(p.file, arch)
		}
		if err == nil && r.verify {
			err = rebuild(ctx, p, r.version)
		}
		if err != nil {
			return nil, err
		}
		binary, err := os.ReadFile(p.file)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{arch: arch, binary: binary, roots: roots, file: p.file})
	}
	return parts, nil
}

// imageAlone makes the image as a folder, with the programs beside it for whoever builds one from the Dockerfile.
func (r *recipe) imageAlone(ctx context.Context) error {
	parts, err := r.controllers(ctx, r.out)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := r.bill("karpenter-linux-"+p.arch, p.file); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(r.out, "ca-certificates.crt"), parts[0].roots, 0o644); err != nil { // for the Dockerfile
		return err
	}
	digest, err := layout(filepath.Join(r.out, "oci"), r.version, r.when, parts)
	if err != nil {
		return err
	}
	r.tell("%s: %s", filepath.Join(r.out, "oci"), digest)
	return nil
}

// image makes the image of a release: the layout as one file, which registries' tools take as it is.
func (r *recipe) image(ctx context.Context, work string) error {
	parts, err := r.controllers(ctx, work)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := r.bill(fmt.Sprintf("karpenter-controller_%s_linux_%s", r.version, p.arch), p.file); err != nil {
			return err
		}
	}
	folder := filepath.Join(work, "oci")
	digest, err := layout(folder, r.version, r.when, parts)
	if err != nil {
		return err
	}
	files, err := tree(folder, "")
	if err != nil {
		return err
	}
	packed, err := pack(r.when, files)
	if err != nil {
		return err
	}
	r.tell("the image: %s", digest)
	return r.write(fmt.Sprintf("karpenter-controller_%s.oci.tar", r.version), packed)
}
