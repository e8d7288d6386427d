// Package scenario is the language of scripts that are played on a local cluster: changes of workload, faults and expectations.
package scenario

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/simaws"
)

// Cluster is what a scenario is played on.
type Cluster struct {
	// Client knows Kubernetes' own kinds and ours; Kubeconfig has an administrator's rights, too.
	Client     client.Client
	Kubeconfig string
	// AWS is the AWS simulator, if nodes come from there, AWSURL where it listens.
	AWS            *simaws.Sim
	AWSURL, Region string
	// Kube is the multi-call binary that has kubectl, Program our own, Dir a folder that belongs to the cluster.
	Kube, Program, Dir string
	// Predict has what plan says of changes held against what comes of them.
	Predict bool

	// Tell is told what happens, line by line.
	Tell func(format string, args ...any)
	// Wait returns when ctx ends, or with an error when a part of the cluster has ended that is not started again.
	Wait func(ctx context.Context) error
	// Kill ends the controller as a crash would, LogTail returns the last lines of its log.
	Kill    func() error
	LogTail func(lines int) string
	// Launched lists the instances that are not the cluster's own, End ends or interrupts some behind the controller's back.
	Launched func(spotOnly bool) ([]string, error)
	End      func(interrupt bool, ids []string) error
}

// Scenario is a script of workload changes, faults and expectations that can be played on a cluster. Its format is in
// docs/start/scenarios.md.
type Scenario struct {
	file  string
	steps []step
}

// step is one line of a scenario.
type step struct {
	line int
	text string
	// at is when to do it, counted from the start; steps without a time come right after the one before.
	at    time.Duration
	timed bool
	do    action
	// change is what it does to objects, and surprise says that it does something to the fleet that nobody can foresee.
	change   changer
	surprise bool
	// predict is on or off where the step says so, and excuse why off.
	predict, excuse string
}

// action does what a step says. What it returns is printed.
type action func(ctx context.Context, c *Cluster) (said string, err error)

// Read reads a scenario and refuses it if a line of it cannot be understood.
func Read(file string) (*Scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	s := &Scenario{file: file}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		parsed, err := parseStep(filepath.Dir(file), words)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		parsed.line = number
		s.steps = append(s.steps, parsed)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	if len(s.steps) == 0 {
		return nil, fmt.Errorf("%s: there is no step in it", file)
	}
	return s, nil
}

func parseStep(dir string, words []string) (step, error) {
	s := step{text: strings.Join(words, " ")}
	if words[0] == "at" {
		if len(words) < 3 {
			return s, fmt.Errorf("%q: at needs a time and a command, such as: at 30s scale deployment inflate 0", s.text)
		}
		var err error
		if s.at, err = time.ParseDuration(words[1]); err != nil || s.at < 0 {
			return s, fmt.Errorf("%q: %q is not a time such as 30s or 2m", s.text, words[1])
		}
		s.timed, words = true, words[2:]
	}
	parse, ok := commands[words[0]]
	if !ok {
		return s, fmt.Errorf("%q: there is no command %q; there are %s", s.text, words[0], strings.Join(commandNames(), ", "))
	}
	var err error
	line := scriptLine{dir: dir, args: words[1:]}
	if s.do, err = parse(line); err != nil {
		return s, fmt.Errorf("%q: %w", s.text, err)
	}
	s.surprise = slices.Contains(surprises, words[0])
	if words[0] == "predict" {
		s.predict, s.excuse = words[1], strings.Join(words[2:], " ")
	}
	if read := changers[words[0]]; read != nil {
		if s.change, err = read(line); err != nil {
			return s, fmt.Errorf("%q: %w", s.text, err)
		}
	}
	return s, nil
}

// Play does what the scenario says, step by step, tells what happened, and returns an error if a step failed or an
// expectation did not come true.
func (s *Scenario) Play(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // a scenario must not wait for a control plane that has died
		if err := c.Wait(ctx); err != nil {
			cancel(err)
		}
	}()
	began, ahead := time.Now(), &prediction{c: c}
	for i := range s.steps {
		step := &s.steps[i]
		if step.timed {
			if err := pause(ctx, step.at-time.Since(began)); err != nil {
				return err
			}
		}
		if err := c.play(ctx, ahead, s.steps[i:]); err != nil {
			c.Tell("  %v", err)
			c.tellState(ctx)
			return fmt.Errorf("%s:%d: %s: %w", s.file, step.line, step.text, err)
		}
	}
	if err := ahead.settle(ctx); err != nil {
		c.Tell("  %v", err)
		c.tellState(ctx)
		return fmt.Errorf("%s: at the end: %w", s.file, err)
	}
	if c.Predict {
		c.Tell("plan was right about %d changes; what it could not foresee: %d", ahead.right, ahead.excuses)
	}
	c.Tell("passed: %d steps in %.1f s", len(s.steps), time.Since(began).Seconds())
	return nil
}

// play does the first of the steps that are left.
func (c *Cluster) play(ctx context.Context, ahead *prediction, rest []step) error {
	if c.Predict {
		if err := ahead.before(ctx, rest); err != nil {
			return err
		}
	}
	c.Tell("> %s", rest[0].text)
	said, err := rest[0].do(ctx, c)
	for line := range strings.Lines(said) {
		c.Tell("  %s", strings.TrimRight(line, "\n"))
	}
	return err
}

// tellState tells what there is, for whoever wants to know why a step failed.
func (c *Cluster) tellState(ctx context.Context) {
	for _, what := range []string{"nodes", "claims", "pods"} {
		text, err := show(ctx, c, what)
		if err != nil {
			c.Tell("  %v", err)
		}
		for line := range strings.Lines(text) {
			c.Tell("  %s", strings.TrimRight(line, "\n"))
		}
	}
	c.Tell("  the end of the controller's log:")
	for line := range strings.Lines(c.LogTail(12)) {
		c.Tell("    %s", strings.TrimRight(line, "\n"))
	}
}

// pause waits for d, if that is more than nothing.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
