package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The last column ends where the screen does, and says so; what is short stays.
func TestAGridFitsTheScreen(t *testing.T) {
	rows := [][]string{{"", "NODE", "WHY"}, {"+", "(new)", "cheapest of 12 types that fit; next best is m5.large"}, {"-", "old", "empty"}, {"… 3 more"}}
	for _, x := range []struct {
		name string
		s    screen
		want string
	}{
		{"as wide as it takes", screen{}, "   NODE   WHY\n+  (new)  cheapest of 12 types that fit; next best is m5.large\n-  old    empty\n… 3 more\n"},
		{"forty columns", screen{width: 40}, "   NODE   WHY\n+  (new)  cheapest of 12 types that fit…\n-  old    empty\n… 3 more\n"},
		{"no room beside", screen{width: 30}, "   NODE\n+  (new)\n   cheapest of 12 types that …\n-  old\n   empty\n… 3 more\n"},
		{"colours", screen{colour: true}, "   NODE   WHY\n\x1b[32m+  (new)  cheapest of 12 types that fit; next best is m5.large\x1b[0m\n\x1b[31m-  old    empty\x1b[0m\n… 3 more\n"},
	} {
		var out bytes.Buffer
		if err := x.s.grid(&out, rows); err != nil || out.String() != x.want {
			t.Errorf("%s: %v\n%q, want\n%q", x.name, err, out.String(), x.want)
		}
	}
}

func TestASummaryIsRight(t *testing.T) {
	for _, x := range []struct {
		add, remove int
		cost        float64
		want        string
	}{
		{4, 0, 111.612, "Plan: 4 nodes to add, 0 to remove, +$111.61/month."},
		{1, 2, -3.2, "Plan: 1 node to add, 2 to remove, -$3.20/month."},
		{0, 0, 0.001, "Plan: 0 nodes to add, 0 to remove, no change in cost."},
	} {
		if got := summary(x.add, x.remove, x.cost); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
	}
}

// What is being done is said only once it takes long, and is wiped away at the end.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	tick := make(chan time.Time)
	p := showProgress(&out, "reading the cluster", tick)
	p.on("planning") // before the first second is over: nothing has been shown
	tick <- time.Time{}
	tick <- time.Time{}
	p.end()
	p.end()
	if want := "\r\x1b[Kplanning … 1s\r\x1b[Kplanning … 2s\r\x1b[K"; out.String() != want {
		t.Errorf("it wrote %q, want %q", out.String(), want)
	}
	var quick bytes.Buffer
	p = showProgress(&quick, "reading the cluster", tick)
	p.end()
	if quick.Len() > 0 {
		t.Errorf("what was quick wrote %q", quick.String())
	}
	silent := newProgress(&quick, "reading the cluster") // no terminal
	silent.on("planning")
	silent.end()
}

// Colours are for terminals, unless somebody says otherwise.
func TestPlanHasColoursWhereTheyAreWanted(t *testing.T) {
	manifest := filepath.Join("testdata", "whatif", "new-deployment.yaml")
	for args, want := range map[string]bool{"": false, "--color=auto": false, "--color=always": true, "--color=never": false} {
		out, err := whatIfOf(t, newFixture(t), manifest, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out, "\x1b[32m+"); got != want {
			t.Errorf("plan %s has colours: %v, want %v", args, got, want)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if s, err := screenOf(null, "auto"); err != nil || s != (screen{}) {
		t.Errorf("a file is taken for %+v (%v)", s, err)
	}
}

// Nodes that are alike are one row, and every one its own with -o wide.
func TestPlanGroupsNodesThatAreAlike(t *testing.T) {
	manifest := filepath.Join("testdata", "whatif", "apart.yaml")
	short, err := whatIfOf(t, newFixture(t), manifest)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := whatIfOf(t, newFixture(t), manifest, "-o", "wide")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(wide, "\n+ ") <= strings.Count(short, "\n+ ") || !strings.Contains(short, " × ") || strings.Contains(wide, " × ") {
		t.Errorf("short:\n%s\nwide:\n%s", short, wide)
	}
}

// YAML says what JSON says.
func TestPlanAsYAML(t *testing.T) {
	out, err := whatIfOf(t, newFixture(t), filepath.Join("testdata", "whatif", "new-deployment.yaml"), "-o", "yaml")
	if err != nil || !strings.Contains(out, "\ndifferencePerMonth: ") || !strings.HasPrefix(out, "add:\n- ") {
		t.Errorf("%v\n%s", err, out)
	}
}
