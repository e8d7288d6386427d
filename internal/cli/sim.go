package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/engine/why"
	"karpenter/internal/sim"
)

// simulating is a run of the sim command.
type simulating struct {
	seed    uint64
	seeded  bool
	plan    string
	length  time.Duration
	shrink  int
	history bool
	now     func() time.Time

	// worlds, events, faults and passed count what was played so far.
	worlds, events, faults, crashes, broken int
	passed                                  time.Duration
	began, told                             time.Time
}

// NewSim returns the command that plays the controller in a simulated cluster.
func NewSim() *cobra.Command {
	s := &simulating{now: time.Now}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Play the whole controller in a simulated cluster where things go wrong, and hold it against its rules",
		Long: `Play the whole controller in a simulated cluster, in simulated time: the same code as the real one, on an API server in memory and
the AWS simulator. Calls to AWS and the API server fail or get no answer, watches are late, instances never join or are taken back,
users delete nodes, and the controller crashes in the middle of what it does. After every event it is looked at whether a rule is
broken, such as "no instance without a NodeClaim", and in the end whether everything has come right.

Everything follows from a seed: the same seed plays the same again. Without a seed, seed after seed is played for --for. What is
broken is told with the shortest plan that breaks it, the end of its history, and the command that plays it again; the exit code is 1.

A plan has a line for the seed and one for each step: a time and what happens then. # begins a remark.

` + simVerbs(),
		Example: `  karpenter sim                       # ten seconds of it
  karpenter sim --seed 42             # one seed, to its end
  karpenter sim --seed 42 --history   # with everything that happens
  karpenter sim --plan broken.plan    # a plan of your own`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.seeded = cmd.Flags().Changed("seed")
			return s.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&s.seed, "seed", 0, "play this seed only, to its end")
	f.StringVar(&s.plan, "plan", "", "file with a plan to play instead, or - for standard input")
	f.DurationVar(&s.length, "for", 10*time.Second, "how long to play one seed after another if none is given")
	f.IntVar(&s.shrink, "shrink", 60, "how many plays to spend on looking for a shorter plan that breaks the same rule")
	f.BoolVar(&s.history, "history", false, "print everything that happens; needs --seed or --plan")
	return cmd
}

// simVerbs explains what steps can do.
func simVerbs() string {
	lines := []string{"Steps:"}
	for _, v := range sim.Verbs() {
		lines = append(lines, "  "+v[0], "      "+v[1])
	}
	return strings.Join(lines, "\n")
}

func (s *simulating) run(ctx context.Context, in io.Reader, out io.Writer) error {
	switch {
	case s.seeded && s.plan != "":
		return errors.New("--seed and --plan: a plan has its own seed; give one of them")
	case s.history && !s.seeded && s.plan == "":
		return errors.New("--history: give --seed or --plan; of many worlds it would be too much")
	case s.length <= 0:
		return fmt.Errorf("--for is %s; give a time above zero, such as 30s", s.length)
	case s.shrink < 0:
		return fmt.Errorf("--shrink is %d; give a number from 0 on", s.shrink)
	}
	sim.LessGarbageCollection()
	s.began = s.now()
	if s.plan != "" {
		plan, err := s.read(in)
		if err != nil {
			return err
		}
		return s.one(ctx, plan, out)
	}
	if s.seeded {
		return s.one(ctx, sim.Draw(s.seed), out)
	}
	// Which seeds do not matter; those of the last run say no more.
	first := uint64(s.began.Unix())
	for seed := first; ; seed++ {
		err := s.play(ctx, sim.Draw(seed), nil, out, true)
		switch {
		case errors.Is(err, errOver) || err == nil && !s.now().Before(s.began.Add(s.length)):
			s.progress(out, true)
			fmt.Fprintf(out, "Played seed %d to seed %d: no rule was broken.\nOne of them again: karpenter sim --seed %d\n", first, seed, first)
			return nil
		case err != nil:
			return err
		}
	}
}

// errOver ends a play because the time is over.
var errOver = errors.New("the time is over")

func (s *simulating) read(in io.Reader) (*sim.Plan, error) {
	if s.plan == "-" {
		return sim.ParsePlan(in, "standard input")
	}
	f, err := os.Open(s.plan)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	defer f.Close()
	return sim.ParsePlan(f, s.plan)
}

// one plays a plan to its end.
func (s *simulating) one(ctx context.Context, plan *sim.Plan, out io.Writer) error {
	var history io.Writer
	if s.history {
		history = out
	}
	if err := s.play(ctx, plan, history, out, false); err != nil {
		return err
	}
	s.progress(out, true)
	fmt.Fprintf(out, "Played seed %d: no rule was broken.\n", plan.Seed)
	return nil
}

// play plays a plan and tells of a rule that it breaks.
func (s *simulating) play(ctx context.Context, plan *sim.Plan, history, out io.Writer, limited bool) error {
	before := *s
	w, err := sim.Play(plan, history, func(w *sim.World) error {
		s.count(&before, w)
		s.progress(out, false)
		if limited && !s.now().Before(s.began.Add(s.length)) {
			return errOver
		}
		return ctx.Err()
	})
	if w != nil {
		s.count(&before, w)
	}
	s.worlds++
	again := fmt.Sprintf("karpenter sim --seed %d", plan.Seed)
	if s.plan != "" {
		again = "karpenter sim --plan " + s.plan
	}
	broken, is := errors.AsType[*sim.Breach](err)
	if !is {
		if err == nil || errors.Is(err, errOver) || errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("%w (to play it again: %s)", err, again)
	}
	s.broken++
	s.progress(out, true)
	fmt.Fprintf(out, "Seed %d breaks %s\n\nThe last %d lines of its history:\n%s\n\nLooking for a shorter plan ...\n", plan.Seed, broken, len(w.Last()), strings.Join(w.Last(), "\n"))
	short := sim.Shrink(plan, broken.Rule, s.shrink, func(*sim.World) error { return ctx.Err() })
	fmt.Fprintf(out, "The shortest plan that was found, of %d steps instead of %d:\n\n%s\nTo play the whole again: %s\nTo play the short one: save it and use karpenter sim --plan FILE\n", len(short.Steps), len(plan.Steps), short, again)
	return fmt.Errorf("seed %d breaks %s", plan.Seed, broken.Rule)
}

// count adds what has been played of a world to what was before it.
func (s *simulating) count(before *simulating, w *sim.World) {
	s.events, s.faults, s.crashes, s.passed = before.events+w.Events(), before.faults+w.Faults, before.crashes+w.Crashes(), before.passed+w.Elapsed()
}

// progress says how far it is, at most once a second.
func (s *simulating) progress(out io.Writer, last bool) {
	if now := s.now(); last || now.Sub(s.told) >= time.Second {
		s.told = now
		fmt.Fprintf(out, "%s, %s in %s of simulated time, %s, %s, %s broken\n", why.Count(s.worlds, "world"), why.Count(s.events, "event"),
			s.passed.Round(time.Minute), why.Count(s.faults, "fault"), why.Plural(s.crashes, "crash", "crashes"), why.Count(s.broken, "rule"))
	}
}
