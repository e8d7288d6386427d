// Command live starts the whole product on this computer (control plane, scheduler, AWS simulator, kwok as kubelets, and the
// image's program as a process) and measures how fast and how frugal it is. It says of each bar whether it holds, and keeps a
// copy of the figures as JSON.
//
//	go run ./test/live [--scale 1] [--provider aws] [--karpenter FILE] [--controller FILE] [--kube FILE] [--json FILE] [bar …]
//
// The bars are start, pending, memory, restart and static, and the workloads wide, basic, hostspread and interference; without a name all
// are measured. A scale below 1 makes the clusters smaller, to try the program itself: bars are then said to hold or not of that
// size.
//
// Workloads are drawn from --seed and run --runs times in every combination of --arrival (how fast Kubernetes makes pods: slow is
// about 20 a second, as by default, fast is 200), --after (the pool's consolidateAfter) and --load (the instance as it is, or with a
// spinning process per core), each on a new cluster. Each phase is reported in a table; with -v a line tells every five seconds how
// far it is.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"karpenter/internal/local"
	"karpenter/test/workloads"
)

// bench is what a run is told, and what it has found.
type bench struct {
	karpenter, controller, kube string
	provider                    string
	out                         string
	scale                       float64
	bars                        []string
	verbose                     bool
	kept                        bool
	seed                        uint64
	runs                        int
	arrivals, loads             []string
	afters                      []time.Duration
	patience                    time.Duration
	lines                       []line
	reports                     []*report
}

// line is the answer to one bar.
type line struct {
	Bar     string  `json:"bar"`
	Holds   bool    `json:"holds"`
	Said    string  `json:"said"`
	Figure  float64 `json:"figure"`
	AtMost  float64 `json:"atMost"`
	Unit    string  `json:"unit"`
	Scale   float64 `json:"scale"`
	LoadAvg string  `json:"loadAverage"`
}

// groups are bars that are measured on one cluster, in this order.
var groups = []struct {
	bars []string
	run  func(*bench, context.Context) error
}{
	{[]string{barStart}, (*bench).start},
	{[]string{barPending, barMemory, barRestart}, (*bench).crowded},
	{[]string{barStatic}, (*bench).static},
	{[]string{workloads.Wide, workloads.Basic, workloads.HostSpread, workloads.Interference}, (*bench).workloads},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == spinWord {
		spin()
	}
	b := &bench{}
	var arrival, after, load string
	flag.StringVar(&b.karpenter, "karpenter", filepath.Join("bin", "karpenter"), "the command line, for karpenter local and karpenter plan")
	flag.StringVar(&b.controller, "controller", filepath.Join("bin", "controller"), "what the clusters run: the program that the image holds")
	flag.StringVar(&b.kube, "kube", filepath.Join("bin", "kube"), "the control plane")
	flag.StringVar(&b.provider, "provider", local.ProviderAWS, "who makes the nodes of pending, memory and restart: aws or cluster-api")
	flag.StringVar(&b.out, "json", filepath.Join("bin", "live.json"), "where to keep the figures")
	flag.Float64Var(&b.scale, "scale", 1, "size of the clusters, as a share of what the bars are about")
	flag.BoolVar(&b.kept, "keep", false, "keep the clusters' folders, with their logs")
	flag.BoolVar(&b.verbose, "v", false, "print what the cluster tells, and every five seconds how far a workload is")
	flag.Uint64Var(&b.seed, "seed", 1, "what the workloads are drawn from")
	flag.IntVar(&b.runs, "runs", 1, "how often each workload is run in each combination")
	flag.StringVar(&arrival, "arrival", "both", "how fast a workload's pods come: slow, fast or both")
	flag.StringVar(&after, "after", "30s", "consolidateAfter of the workloads' pool; several are separated by commas")
	flag.StringVar(&load, "load", "calm", "what else the computer does: calm (nothing), busy (a spinning process per core) or both")
	flag.DurationVar(&b.patience, "patience", 20*time.Minute, "when to give a phase of a workload up")
	flag.Parse()
	b.bars = flag.Args()
	if err := b.combine(arrival, after, load); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
	if slices.ContainsFunc(b.lines, func(l line) bool { return !l.Holds }) {
		os.Exit(2)
	}
}

// combine reads which combinations workloads are run in.
func (b *bench) combine(arrival, after, load string) error {
	either := func(flag, value string, words ...string) ([]string, error) {
		switch {
		case value == "both":
			return words, nil
		case slices.Contains(words, value):
			return []string{value}, nil
		}
		return nil, fmt.Errorf("--%s is %q; give %s or both", flag, value, strings.Join(words, ", "))
	}
	var err error
	if b.arrivals, err = either("arrival", arrival, "slow", "fast"); err != nil {
		return err
	}
	if b.loads, err = either("load", load, "calm", "busy"); err != nil {
		return err
	}
	for _, text := range strings.Split(after, ",") {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("--after: %w", err)
		}
		b.afters = append(b.afters, d)
	}
	return nil
}

func (b *bench) run(ctx context.Context) error {
	var known []string
	for _, g := range groups {
		known = append(known, g.bars...)
	}
	if len(b.bars) == 0 {
		b.bars = known
	}
	for _, name := range b.bars {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no bar %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	for _, file := range []*string{&b.karpenter, &b.controller, &b.kube} {
		path, err := filepath.Abs(*file)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("%w; run make build controller", err)
		}
		*file = path
	}
	for _, g := range groups {
		if !slices.ContainsFunc(g.bars, b.wants) {
			continue
		}
		if err := g.run(b, ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", strings.Join(g.bars, ", "), err), b.keep())
		}
	}
	return b.keep()
}

func (b *bench) wants(bar string) bool { return slices.Contains(b.bars, bar) }

// sized is a number of nodes or pods at this run's scale.
func (b *bench) sized(n int) int { return max(1, int(float64(n)*b.scale)) }

// note prints something that is no answer to a bar.
func (b *bench) note(format string, args ...any) {
	fmt.Printf("        %s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// figure is one measured number and its bar.
type figure struct {
	bar, unit  string
	is, atMost float64
}

// say answers a bar.
func (b *bench) say(f figure, format string, args ...any) {
	l := line{
		Bar: f.bar, Figure: f.is, AtMost: f.atMost, Unit: f.unit, Holds: f.is <= f.atMost,
		Said: fmt.Sprintf(format, args...), Scale: b.scale, LoadAvg: loadAverage(),
	}
	word := "holds "
	if !l.Holds {
		word = "BROKEN"
	}
	fmt.Printf("%s  %s: %s; %.4g %s, at most %.4g (load %s)\n", word, f.bar, l.Said, f.is, f.unit, f.atMost, l.LoadAvg)
	b.lines = append(b.lines, l)
}

// keep writes the figures to a file.
func (b *bench) keep() error {
	data, err := json.MarshalIndent(struct {
		Bars   []line    `json:"bars"`
		Phases []*report `json:"phases"`
	}{b.lines, b.reports}, "", " ")
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(b.out), 0o755); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return os.WriteFile(b.out, append(data, '\n'), 0o644)
}
