// Command release makes everything that is given to users, without a container engine and so that the same commit gives the same bytes:
// archives of the command line, the image of the controller, the charts, the CRDs, a manifest for krew, lists of what is in each program
// (SPDX), the sums of all that and a statement of where it comes from (in-toto, SLSA provenance).
//
// Usage:
//
//	go run ./tools/release [-version V] [-out dist] [-roots FILE] [-url URL] all
//	go run ./tools/release [-version V] [-out artifacts/image] [-roots FILE] [-verify] image
//
// "image" makes the image alone, as a folder; with -verify its programs are built twice and compared.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// recipe is what a release is made from.
type recipe struct {
	// root is the folder of the source, out the one to write to, roots the file of the CA roots.
	root, out, roots string
	// version is the release's, url where its files will be.
	version, url string
	// commit is what it is made from, when the moment of that commit: the time of everything that has one.
	commit string
	when   time.Time
	// archs are those of the image.
	archs  []string
	verify bool
	// build makes a program; tell says how far it is.
	build func(ctx context.Context, p program, version string) error
	tell  func(format string, args ...any)
}

func main() {
	r := recipe{root: ".", build: build, tell: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	archs := flag.String("arch", "amd64,arm64", "architectures of the image, separated by commas")
	flag.StringVar(&r.version, "version", "unknown", "version that the programs say they have, and the tag of the image")
	flag.StringVar(&r.out, "out", "", "folder to write to (default dist, and artifacts/image for the image alone)")
	flag.StringVar(&r.url, "url", "", "where the files of the release will be, for the manifest of krew (default https://releases.example.com/karpenter/VERSION)")
	flag.StringVar(&r.roots, "roots", "/etc/ssl/certs/ca-certificates.crt", "CA roots in PEM form, by which AWS is trusted")
	flag.BoolVar(&r.verify, "verify", false, "build the programs of the image twice and compare")
	flag.Parse()
	r.archs = strings.Split(*archs, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx, flag.Arg(0))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// tag is what registries take as one.
var tag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func (r *recipe) run(ctx context.Context, what string) error {
	if !tag.MatchString(r.version) {
		return fmt.Errorf("-version %q: must be a tag that registries take: letters, digits, _, . and -, at most 128 of them", r.version)
	}
	for _, arch := range r.archs {
		if machines[arch] == 0 {
			return fmt.Errorf("-arch %q: must be amd64 or arm64", arch)
		}
	}
	switch what {
	case "image":
		if r.out == "" {
			r.out = filepath.Join("artifacts", "image")
		}
		r.when = epoch
		return r.imageAlone(ctx)
	case "all":
		if r.out == "" {
			r.out = "dist"
		}
		if r.url == "" {
			r.url = "https://releases.example.com/karpenter/" + r.version
		}
		if err := r.source(ctx); err != nil {
			return err
		}
		return r.all(ctx)
	}
	return fmt.Errorf("%q: say what to make: all, or image", what)
}

// source finds out what the release is made from. What is not committed is in no commit, so the statement of where it comes from would
// be wrong.
func (r *recipe) source(ctx context.Context) error {
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the working copy has changes that are not committed, and a release is made from a commit:\n%s", changed)
	}
	if r.commit, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	at := os.Getenv("SOURCE_DATE_EPOCH")
	if at == "" {
		if at, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH=%q: must be seconds since 1970", at)
	}
	r.when = time.Unix(seconds, 0).UTC()
	return nil
}

func (r *recipe) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// all makes the release. Nothing that an earlier one has left stays.
func (r *recipe) all(ctx context.Context) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	r.tell("release %s of commit %.12s", r.version, r.commit)
	work, err := os.MkdirTemp("", "karpenter-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, step := range []func(context.Context, string) error{r.commandLines, r.image, r.charts, r.definitions, r.krew, r.provenance, r.sums} {
		if err := step(ctx, work); err != nil {
			return err
		}
	}
	r.tell("%s: done", r.out)
	return nil
}

// write puts a file of the release into its folder.
func (r *recipe) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
		return err
	}
	r.tell("  %s  %s", name, size(len(content)))
	return nil
}

// size is a number of bytes for people.
func size(bytes int) string {
	if bytes < 100_000 {
		return fmt.Sprintf("%d kB", (bytes+999)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
