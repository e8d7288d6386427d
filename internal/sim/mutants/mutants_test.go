package mutants

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"karpenter/internal/sim"
	"karpenter/internal/sim/mutants/on"
)

var (
	only   = flag.String("only", "", "names of mutants to play, with commas; all if empty")
	plan   = flag.String("plan", "", "a file to play instead of the plans of the mutants")
	keep   = flag.String("keep", "", "where to leave the program with the mutants")
	part   = flag.Int("part", 0, "which part of the mutants is played")
	parts  = flag.Int("parts", 1, "how many parts there are")
	shrink = flag.Int("shrink", 0, "how many plays are spent on a shorter plan where a seed has found a mutant")
	most   = flag.Uint64("seeds", 3, "how many seeds a mutant is looked for in, after its plan")
)

// inside is set in the program that is built with the overlay.
const inside = "KARPENTER_SIM_MUTANTS"

// TestT34_MutantsAreCaught builds the product with all mutants in it and plays each until a rule is broken.
func TestT34_MutantsAreCaught(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("this is the program that the test has built")
	}
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := Overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	program := *keep
	if program == "" {
		program = filepath.Join(dir, "mutants.test")
	}
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building with the overlay: %v\n%s", err, out)
	}
	// Two programs, because a play takes one core and which mutant is on is the same in all of a program.
	caught, played := 0, 0
	outs := make([]string, 2)
	var group sync.WaitGroup
	for i := range outs {
		group.Go(func() {
			run := exec.Command(program, "-test.run", "TestInside", "-test.v", "-test.timeout", "3h", "-only", *only, "-plan", *plan, "-seeds", fmt.Sprint(*most), "-part", fmt.Sprint(i), "-parts", fmt.Sprint(len(outs)))
			run.Env = append(os.Environ(), inside+"=1")
			out, err := run.CombinedOutput()
			if outs[i] = string(out); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	for _, out := range outs {
		t.Log(out)
		for _, line := range strings.Split(out, "\n") {
			var c, p int
			if _, of, ok := strings.Cut(line, "caught "); ok {
				if n, _ := fmt.Sscanf(of, "%d of %d", &c, &p); n == 2 {
					caught, played = caught+c, played+p
				}
			}
		}
	}
	t.Logf("| T34 mutants | %d | %d of %d caught |", played, caught, played)
}

// TestInside plays the mutants; it runs in the program that is built with the overlay.
func TestInside(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("TestT34_MutantsAreCaught runs it")
	}
	sim.LessGarbageCollection()
	caught, played := 0, 0
	for i, m := range Mutants {
		if i%*parts != *part {
			continue
		}
		if *only != "" && !slices.Contains(strings.Split(*only, ","), m.Name) {
			continue
		}
		played++
		began := time.Now()
		if by, rule := catch(t, m); by == "" {
			t.Errorf("%-28s not caught (%v)", m.Name, time.Since(began).Round(time.Millisecond))
		} else {
			caught++
			t.Logf("%-28s %-4s by %s (%v)", m.Name, rule, by, time.Since(began).Round(time.Millisecond))
		}
	}
	t.Logf("caught %d of %d", caught, played)
}

// history is where plays are told.
func history() io.Writer {
	if os.Getenv("KARPENTER_SIM_HISTORY") != "" {
		return os.Stdout
	}
	return nil
}

// catch plays a mutant until a rule is broken, and says by what that was found.
func catch(t *testing.T, m Mutant) (by, rule string) {
	t.Helper()
	on.Set(m.Name)
	defer on.Set("")
	broken := func(p *sim.Plan) bool {
		_, err := sim.Play(p, history(), nil)
		b, is := errors.AsType[*sim.Breach](err)
		if is {
			rule = b.Rule
			t.Logf("%s: %v", m.Name, err)
		} else if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		return is
	}
	if *plan != "" {
		raw, err := os.ReadFile(*plan)
		if err != nil {
			t.Fatal(err)
		}
		m.Plan = string(raw)
	}
	if m.Plan != "" {
		p, err := sim.ParsePlan(strings.NewReader(m.Plan), m.Name)
		if err != nil {
			t.Fatal(err)
		}
		on.Set("")
		if broken(p) {
			t.Errorf("%s: its plan breaks %s without it", m.Name, rule)
			return "", ""
		}
		on.Set(m.Name)
		if broken(p) {
			return "its plan", rule
		}
	}
	for seed := range *most {
		if broken(sim.Draw(seed)) {
			if *shrink > 0 {
				t.Logf("%s", sim.Shrink(sim.Draw(seed), rule, *shrink, nil))
			}
			return "seed " + sim.Draw(seed).SeedText(), rule
		}
	}
	return "", ""
}
