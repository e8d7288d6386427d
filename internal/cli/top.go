package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"karpenter/internal/model"
)

const (
	// topInterval is how often the cluster is looked at, unless told otherwise.
	topInterval = 2 * time.Second
	// topWidth is how wide --once draws where there is no terminal.
	topWidth = 140
)

// topping is a run of the top command.
type topping struct {
	source   Source
	output   string
	once     bool
	interval time.Duration
	width    int
	sort     string
	filter   string
	pool     string
}

// NewTop returns the command that shows nodes, what they cost and what is on them.
func NewTop() *cobra.Command { return newTop(time.Now) }

func newTop(now func() time.Time) *cobra.Command {
	t := &topping{source: Source{now: now}}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show nodes live: type, price, what is asked of them, and whether they could be removed",
		Long: `Show the nodes of a cluster and keep the picture current: type, zone, capacity type, age, price, how much of their CPU and memory pods ask
for, their state, and whether they could be removed, with the reason if not. Above them: what all of them cost an hour and a month, and
why pods are pending. Room that is kept for CapacityBuffers is drawn as ▒, and PODS says 9+3 of a node that has 9 pods and room for 3 spare
ones; static pools say how many nodes they have of those that they are to have.

Keys: c u m a n sort by cost, CPU, memory, age, name, and once more turns the order around; / filters by words, p goes through
the pools, Esc shows everything again; arrows, Page Up and Page Down move; q ends.

Columns drop out as the terminal narrows; 80 are enough. Colours are left out with NO_COLOR and where there is no terminal.`,
		Example: `  karpenter top
  karpenter top --once --sort cpu
  karpenter top -o json | jq '.nodes[] | select(.removable == "yes") | .node'
  karpenter top --snapshot recording.json.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd) },
	}
	f := cmd.Flags()
	t.source.AddFlags(f)
	f.StringVarP(&t.output, "output", "o", "table", "table for people, json or yaml for programs (once)")
	f.BoolVar(&t.once, "once", false, "print once and end; so does output that is no terminal")
	f.DurationVar(&t.interval, "interval", topInterval, "how often to look")
	f.IntVar(&t.width, "width", 0, "how many characters wide to draw; the terminal's width without it")
	f.StringVar(&t.sort, "sort", "cost", "cost, cpu, memory, age or name")
	f.StringVar(&t.filter, "filter", "", "show only nodes that have all of these words in a column")
	f.StringVar(&t.pool, "pool", "", "show only nodes of this pool")
	t.source.completeAccess(cmd)
	completeWords(cmd, map[string][]string{"output": {"table", "json", "yaml"}, "sort": {"cost", "cpu", "memory", "age", "name"}})
	_ = cmd.RegisterFlagCompletionFunc("pool", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return t.source.CompleteNames(cmd.Context(), "nodepool", "", begun)
	})
	return cmd
}

// topSorts are the keys behind the words of --sort.
var topSorts = map[string]byte{"cost": 'c', "cpu": 'u', "memory": 'm', "age": 'a', "name": 'n'}

func (t *topping) check() error {
	if _, ok := topSorts[t.sort]; !ok {
		return fmt.Errorf("--sort is %q; give cost, cpu, memory, age or name", t.sort)
	}
	if t.output != "table" && !forPrograms(t.output) {
		return fmt.Errorf("--output is %q; give table, json or yaml", t.output)
	}
	if t.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval is %s; give at least 100ms", t.interval)
	}
	if t.width < 0 || t.width > 10000 {
		return fmt.Errorf("--width is %d; give a number of characters", t.width)
	}
	return nil
}

func (t *topping) run(cmd *cobra.Command) error {
	if err := t.check(); err != nil {
		return err
	}
	view := &topView{sort: topSorts[t.sort], filter: t.filter, pool: t.pool}
	out, terminal := cmd.OutOrStdout().(*os.File)
	terminal = terminal && term.IsTerminal(int(out.Fd()))
	if terminal && !t.once && t.output == "table" {
		in, ok := cmd.InOrStdin().(*os.File)
		if !ok || !term.IsTerminal(int(in.Fd())) {
			return errors.New("there is no keyboard to read keys from; give --once")
		}
		view.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		return (&topScreen{topping: t, view: view, in: in, out: out}).run(cmd.Context())
	}
	fleet, err := t.load(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return err
	}
	if forPrograms(t.output) {
		return encode(cmd.OutOrStdout(), t.output, fleet, "")
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "from", fleet.From)
	width := t.width
	if width == 0 && terminal {
		width, _, _ = term.GetSize(int(out.Fd()))
	}
	if width == 0 {
		width, _ = strconv.Atoi(os.Getenv("COLUMNS"))
	}
	if width == 0 {
		width = topWidth
	}
	for _, line := range view.frame(fleet, width, 0) {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	return nil
}

// load makes a model of this moment, with everything in it.
func (t *topping) load(ctx context.Context, stdin io.Reader) (*model.Fleet, error) {
	m, later, err := t.look(ctx, stdin)
	if err == nil && later != nil {
		m.Apply(later())
	}
	return m, err
}

// look makes a model of this moment; later finds out which nodes could go, and is nil where that is known already.
func (t *topping) look(ctx context.Context, stdin io.Reader) (m *model.Fleet, later func() model.Verdicts, err error) {
	loaded, err := t.source.LoadFleet(ctx, stdin)
	if err != nil {
		return nil, nil, err
	}
	if loaded.Fleet != nil {
		loaded.Fleet.From, loaded.Fleet.Estimate = loaded.From, loaded.Estimate
		return loaded.Fleet, nil, nil
	}
	view, _, err := loaded.Recording.View()
	if err != nil {
		return nil, nil, err
	}
	return newTopModel(loaded, view), func() model.Verdicts { return judge(loaded.Recording, view) }, nil
}
