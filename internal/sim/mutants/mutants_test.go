package mutants

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"karpenter/internal/sim"
	"karpenter/internal/sim/mutants/on"
)

var (
	only = flag.String("only", "", "names of mutants to play, with commas; all if empty")
	all  = flag.Bool("all", false, "also play the mutants that are known not to be caught")
	most = flag.Uint64("seeds", 25, "how many seeds a mutant is looked for in, after its plan")
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
	program := filepath.Join(dir, "mutants.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building with the overlay: %v\n%s", err, out)
	}
	run := exec.Command(program, "-test.run", "TestInside", "-test.v", "-only", *only, fmt.Sprintf("-all=%t", *all), "-seeds", fmt.Sprint(*most))
	run.Env = append(os.Environ(), inside+"=1")
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v", err)
	}
}

// TestInside plays the mutants; it runs in the program that is built with the overlay.
func TestInside(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("TestT34_MutantsAreCaught runs it")
	}
	sim.LessGarbageCollection()
	caught, played := 0, 0
	for _, m := range Mutants {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), m.Name) {
			continue
		}
		if why := Open[m.Name]; why != "" && !*all {
			t.Logf("%-28s open: %s", m.Name, why)
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
	t.Logf("| T34 mutants of %d | %d | %d caught |", len(Mutants), played, caught)
}

// catch plays a mutant until a rule is broken, and says by what that was found.
func catch(t *testing.T, m Mutant) (by, rule string) {
	t.Helper()
	on.Set(m.Name)
	defer on.Set("")
	broken := func(p *sim.Plan) bool {
		_, err := sim.Play(p, nil, nil)
		b, is := errors.AsType[*sim.Breach](err)
		if is {
			rule = b.Rule
		} else if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		return is
	}
	if m.Plan != "" {
		p, err := sim.ParsePlan(strings.NewReader(m.Plan), m.Name)
		if err != nil {
			t.Fatal(err)
		}
		if broken(p) {
			return "its plan", rule
		}
	}
	for seed := range *most {
		if broken(sim.Draw(seed)) {
			return "seed " + sim.Draw(seed).SeedText(), rule
		}
	}
	return "", ""
}
