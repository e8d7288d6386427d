// Command bench packs snapshots of generated clusters with this planner and, where it has been built, with upstream
// Karpenter's own scheduler, in one run on one instance, and consolidates fleets. It prints speed, cost, memory and the
// ratios, keeps a copy as JSON, and says of each bar whether it holds.
//
//	go run ./test/bench [--quick] [--fleet] [--seed 7] [--material DIR] [--peer BINARY] [--json FILE]
//	go run ./test/bench --day [--quick] [--seed 7] [--only wide/ours/7/100%] [--trace]
//
// The material directory has workload.py, catalog.json and bound.py; the peer is found by --peer or KARPENTER_BENCH_PEER, and left
// out when there is none. A day in virtual time (package day) needs neither.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// bench is what a run is told.
type bench struct {
	material string
	peer     string
	planner  string
	out      string
	seed     int
	quick    bool
	// fleetOnly leaves out packing.
	fleetOnly bool
	// day plays days in virtual time instead.
	day  dayOptions
	work string
}

// figures are what a planner says about one snapshot.
type figures struct {
	SolveMillis  float64 `json:"solveMillis"`
	LoadMillis   float64 `json:"loadMillis,omitempty"`
	AllocatedMiB float64 `json:"allocatedMiB"`
	Pods         int     `json:"pods"`
	Placed       int     `json:"placed"`
	Total        float64 `json:"totalPricePerHour"`
	Bound        float64 `json:"lowerBoundPerHour,omitempty"`
}

func (f *figures) podsPerSecond() float64 { return float64(f.Pods) / f.SolveMillis * 1000 }

// row is one snapshot with what each planner made of it.
type row struct {
	Name string   `json:"name"`
	Pods int      `json:"pods"`
	Args []string `json:"args,omitempty"`
	Ours *figures `json:"ours"`
	Peer *figures `json:"peer,omitempty"`
	// Check is the bound that an independent program finds.
	Check float64 `json:"independentBound,omitempty"`
}

func main() {
	b := &bench{}
	flag.StringVar(&b.material, "material", filepath.Join("..", "shared", "bench"), "directory with workload.py and catalog.json")
	flag.StringVar(&b.peer, "peer", os.Getenv("KARPENTER_BENCH_PEER"), "binary that packs with upstream's scheduler; none leaves it out")
	flag.StringVar(&b.planner, "planner", "", "karpenter binary to measure; built from this tree by default")
	flag.StringVar(&b.out, "json", filepath.Join("bin", "bench.json"), "where to keep the figures")
	flag.IntVar(&b.seed, "seed", 7, "seed of the snapshots")
	flag.BoolVar(&b.quick, "quick", false, "leave out the largest snapshots")
	flag.BoolVar(&b.fleetOnly, "fleet", false, "measure consolidation only")
	b.day.flags()
	flag.Parse()
	run := b.run
	if b.day.on {
		run = b.days
	}
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(2)
	}
}

// run measures everything; it is false when a bar does not hold.
func (b *bench) run() (bool, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return false, fmt.Errorf("make a directory for snapshots: %w", err)
	}
	defer os.RemoveAll(dir)
	b.work = dir
	if b.planner == "" {
		b.planner = filepath.Join(dir, "karpenter")
		cmd := exec.Command("go", "build", "-o", b.planner, "./cmd/karpenter")
		if out, err := cmd.CombinedOutput(); err != nil {
			return false, fmt.Errorf("build karpenter: %w\n%s", err, out)
		}
	}
	var rows []*row
	fmt.Printf("%-22s %9s %10s %10s %9s %10s %10s %7s %9s %8s %8s\n", "snapshot", "pods", "ms", "pods/s", "MiB", "$/h", "bound", "over", "peer $/h", "cost", "speed")
	for _, r := range b.rows() {
		if err := b.measure(r); err != nil {
			return false, fmt.Errorf("%s: %w", r.Name, err)
		}
		rows = append(rows, r)
		fmt.Println(r)
	}
	fleets, err := b.fleets()
	if err != nil {
		return false, err
	}
	overlaid, err := b.overlaid()
	if err != nil {
		return false, fmt.Errorf("overlays: %w", err)
	}
	spares, err := b.spares()
	if err != nil {
		return false, err
	}
	ok := printBars(rows, fleets, spares)
	ok = overlaid.holds() && ok
	data, err := json.MarshalIndent(map[string]any{"plans": rows, "fleets": fleets, "overlays": overlaid, "buffers": spares}, "", " ")
	if err != nil {
		return false, fmt.Errorf("write figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(b.out), 0o755); err != nil {
		return false, fmt.Errorf("write figures: %w", err)
	}
	return ok, os.WriteFile(b.out, append(data, '\n'), 0o644)
}

// looseLimits give every pool limits that do not bind, and minValues, as nearly every pool has them.
var looseLimits = []string{"--limit-cpu", "100000", "--min-values", "5"}

// rows lists the snapshots.
func (b *bench) rows() []*row {
	var out []*row
	if b.fleetOnly {
		return nil
	}
	for _, name := range []string{"plain", "micro", "ratio", "wide", "diverse", "prefer", "gpu"} {
		out = append(out, &row{Name: name, Pods: 1000}, &row{Name: name, Pods: 1000, Args: []string{"--max-cpu", "32"}}, &row{Name: name, Pods: 1000, Args: looseLimits})
	}
	out = append(out, &row{Name: "plain", Pods: 1000, Args: []string{"--capacity", "both"}}, &row{Name: "micro", Pods: 1000, Args: []string{"--capacity", "spot"}},
		&row{Name: "plain", Pods: 12}, &row{Name: "plain", Pods: 12, Args: looseLimits}, &row{Name: "plain", Pods: 20}, &row{Name: "micro", Pods: 100})
	if !b.quick {
		out = append(out, &row{Name: "diverse", Pods: 10000}, &row{Name: "diverse", Pods: 20000}, &row{Name: "plain", Pods: 100000})
	}
	return out
}

// peerLimit is the largest snapshot that upstream is asked about: it needs minutes for more.
const peerLimit = 10000

func (b *bench) measure(r *row) error {
	snapshot := filepath.Join(b.work, "snapshot.json")
	args := append([]string{filepath.Join(b.material, "workload.py"), r.Name, "--pods", strconv.Itoa(r.Pods), "--seed", strconv.Itoa(b.seed)}, r.Args...)
	data, err := exec.Command("python3", args...).Output()
	if err != nil {
		return fmt.Errorf("make snapshot: %w", explain(err))
	}
	if err := os.WriteFile(snapshot, data, 0o600); err != nil {
		return err
	}
	catalog := filepath.Join(b.material, "catalog.json")
	if r.Ours, err = figuresOf(b.planner, "plan", "-o", "json", "--snapshot", snapshot, "--catalog", catalog); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if b.peer != "" && r.Pods <= peerLimit {
		if r.Peer, err = figuresOf(b.peer, "--snapshot", snapshot, "--catalog", catalog); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
	}
	if r.Name == "plain" || r.Name == "ratio" {
		text, err := exec.Command("python3", filepath.Join(b.material, "bound.py"), snapshot).Output()
		if err != nil {
			return fmt.Errorf("independent bound: %w", explain(err))
		}
		r.Check, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		return err
	}
	return nil
}

// explain adds what a program said to its exit status.
func explain(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}

func figuresOf(name string, args ...string) (*figures, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return nil, explain(err)
	}
	f := &figures{}
	if err := json.Unmarshal(out, f); err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	return f, nil
}

// String is the row as a line of the table.
func (r *row) String() string {
	name := r.Name
	for _, a := range r.Args {
		name += " " + strings.TrimPrefix(a, "--")
	}
	f := r.Ours
	line := fmt.Sprintf("%-22s %9d %10.1f %10.0f %9.1f %10.4f %10.4f %6.2f%%", name, f.Pods, f.SolveMillis, f.podsPerSecond(), f.AllocatedMiB, f.Total, f.Bound, 100*(f.Total/f.Bound-1))
	if r.Peer != nil {
		line += fmt.Sprintf(" %9.4f %8.3f %7.0fx", r.Peer.Total, f.Total/r.Peer.Total, r.Peer.SolveMillis/f.SolveMillis)
	}
	return line
}
