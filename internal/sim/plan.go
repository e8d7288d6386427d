package sim

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/engine/why"
)

// Plan is what happens in a world, and when: what there is, what changes and what goes wrong. With its seed it says everything; the
// same plan gives the same history. As text it has a line for each step, of a time and what happens then.
type Plan struct {
	Seed  uint64
	Steps []Step
	// Workers is how many the engine has, which changes nothing.
	Workers int
}

// Step is one line of a plan.
type Step struct {
	At time.Duration
	// Words are the verb and what it is about.
	Words []string
	do    func(*World) error
	// from says where the line stands, if it was read: "file:3: ".
	from string
}

// String is the line.
func (s Step) String() string { return s.At.String() + " " + strings.Join(s.Words, " ") }

// String is the text that ParsePlan reads.
func (p *Plan) String() string {
	lines := []string{"seed " + strconv.FormatUint(p.Seed, 10)}
	for _, s := range p.Steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// SeedText is the seed as it is written.
func (p *Plan) SeedText() string { return strconv.FormatUint(p.Seed, 10) }

// End is when the plan is over.
func (p *Plan) End() time.Duration {
	if len(p.Steps) == 0 {
		return 0
	}
	return p.Steps[len(p.Steps)-1].At
}

// add appends a step that is known to be right.
func (p *Plan) add(at time.Duration, format string, args ...any) {
	s := Step{At: at, Words: strings.Fields(fmt.Sprintf(format, args...))}
	if err := s.read(); err != nil {
		panic(fmt.Sprintf("%s: %v", s, err))
	}
	p.Steps = append(p.Steps, s)
}

// order sorts steps by time, and leaves those of one time as they are.
func (p *Plan) order() {
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
}

// verb is what a step can do.
type verb struct {
	// usage is how it is written; text says what it does.
	usage, text string
	read        func(args []string) (func(*World) error, error)
}

// read finds out what the words mean.
func (s *Step) read() error {
	if len(s.Words) == 0 {
		return errors.New("there is a time and nothing that happens then; give a verb, one of " + strings.Join(verbNames(), ", "))
	}
	v, ok := verbs[s.Words[0]]
	if !ok {
		if meant := why.Similar(s.Words[0], verbNames()); meant != "" {
			return fmt.Errorf("%q is no verb; did you mean %s?", s.Words[0], meant)
		}
		return fmt.Errorf("%q is no verb; give one of %s", s.Words[0], strings.Join(verbNames(), ", "))
	}
	do, err := v.read(s.Words[1:])
	if err != nil {
		return fmt.Errorf("%w; it is written as: TIME %s", err, v.usage)
	}
	s.do = do
	return nil
}

func verbNames() (names []string) {
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Verbs lists what steps can do, each with how it is written, for help.
func Verbs() (out [][2]string) {
	for _, name := range verbNames() {
		out = append(out, [2]string{verbs[name].usage, verbs[name].text})
	}
	return out
}

// ParsePlan reads a plan. Errors name the line.
func ParsePlan(from io.Reader, name string) (*Plan, error) {
	p, lines := &Plan{}, bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		bad := func(err error) error { return fmt.Errorf("%s:%d: %w", name, n, err) }
		switch {
		case len(words) == 0:
		case words[0] == "seed":
			if len(words) != 2 {
				return nil, bad(errors.New("a seed is one whole number, such as: seed 7"))
			}
			seed, err := strconv.ParseUint(words[1], 10, 64)
			if err != nil {
				return nil, bad(fmt.Errorf("seed %q is no whole number from 0 on; write for example: seed 7", words[1]))
			}
			p.Seed = seed
		default:
			at, err := time.ParseDuration(words[0])
			if err != nil || at < 0 {
				return nil, bad(fmt.Errorf("%q is no time since the start; begin the line with one such as 90s or 5m, or with seed", words[0]))
			}
			if at < p.End() {
				return nil, bad(fmt.Errorf("%s is before %s of the line above; put lines in the order of time", at, p.End()))
			}
			s := Step{At: at, Words: words[1:], from: fmt.Sprintf("%s:%d: ", name, n)}
			if err := s.read(); err != nil {
				return nil, bad(err)
			}
			p.Steps = append(p.Steps, s)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(p.Steps) == 0 || p.Steps[len(p.Steps)-1].Words[0] != "end" && p.Steps[len(p.Steps)-1].Words[0] != "calm" {
		return nil, fmt.Errorf("%s: the last line must say when it ends, such as: 50m end", name)
	}
	return p, nil
}
