// Command testsum reads what "go test -json" prints and shows it for people: a line per package as it ends, the
// output of what failed, and at the end how many tests ran, and again how that begins which those that failed have said. It fails if a
// test failed, a package did not build, or none ran at all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
)

// event is one line of "go test -json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

func main() {
	if !summarise(os.Stdin, os.Stdout) {
		os.Exit(1)
	}
}

type counts struct{ passed, failed, skipped int }

type summary struct {
	out     io.Writer
	total   counts
	broken  int // packages that failed outside any test
	running map[string]*counts
	output  map[string][]string // by package and test, until it is known to have passed
	skips   []string
	failed  []string // what failed, with the first things it said
}

func summarise(in io.Reader, out io.Writer) bool {
	s := &summary{out: out, running: map[string]*counts{}, output: map[string][]string{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<26)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // not ours: a message of the go command itself
			continue
		}
		s.take(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testsum: reading:", err)
		return false
	}
	sort.Strings(s.skips)
	for _, skip := range s.skips {
		fmt.Fprintln(out, "skipped:", skip)
	}
	for _, failed := range s.failed {
		fmt.Fprintln(out, "failed:", failed)
	}
	if s.broken > 0 {
		fmt.Fprintf(out, "%d packages failed outside any test\n", s.broken)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.total.passed, s.total.failed+s.broken, s.total.skipped)
	return s.total.failed+s.broken == 0 && s.total.passed > 0
}

func (s *summary) take(e event) {
	if e.Package == "" {
		e.Package = e.ImportPath
	}
	key := e.Package + " " + e.Test
	if s.running[e.Package] == nil {
		s.running[e.Package] = &counts{}
	}
	switch e.Action {
	case "output", "build-output":
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			s.endPackage(e, key)
		} else {
			s.endTest(e, key)
		}
		delete(s.output, key)
	}
}

func (s *summary) endTest(e event, key string) {
	c := s.running[e.Package]
	switch e.Action {
	case "pass":
		c.passed++
	case "skip":
		c.skipped++
		s.skips = append(s.skips, key)
	case "fail":
		c.failed++
		fmt.Fprintf(s.out, "FAIL %s\n%s", key, strings.Join(s.output[key], ""))
		s.failed = append(s.failed, key+first(s.output[key]))
	}
}

// said is how a test begins to say something: "    x_test.go:12: ".
var said = regexp.MustCompile(`^ +\w+\.go:\d+: `)

// first is the beginning of what a test has said: of more than that the rest is further up.
func first(output []string) string {
	var lines []string
	for _, line := range output {
		if said.MatchString(line) && len(lines) < 4 {
			lines = append(lines, fmt.Sprintf("\n    %.300s", strings.TrimSpace(line)))
		}
	}
	return strings.Join(lines, "")
}

func (s *summary) endPackage(e event, key string) {
	c := s.running[e.Package]
	if e.Action == "fail" && c.failed == 0 {
		s.broken++
	}
	if e.Action == "fail" {
		fmt.Fprintf(s.out, "FAIL %s\n", e.Package)
		s.printRest(e.Package)
	} else if c.passed+c.skipped > 0 {
		fmt.Fprintf(s.out, "ok   %-60s %4d tests %7.1fs\n", e.Package, c.passed+c.skipped, e.Elapsed)
	}
	s.total.passed += c.passed
	s.total.failed += c.failed
	s.total.skipped += c.skipped
	delete(s.running, e.Package)
	delete(s.output, key)
}

// printRest shows what a failed package printed outside tests that ended: a panic, a compile error, a time-out.
func (s *summary) printRest(name string) {
	var keys []string
	for key := range s.output {
		if strings.HasPrefix(key, name+" ") {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		fmt.Fprint(s.out, strings.Join(s.output[key], ""))
		delete(s.output, key)
	}
}
