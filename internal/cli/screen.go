package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"karpenter/internal/engine/why"
)

// screen is what output for people is made for: how wide it may be, and whether it has colours.
type screen struct {
	width  int // 0 is as wide as it takes
	colour bool
}

// colours are the values of --color.
var colours = []string{"auto", "always", "never"}

// addColourFlag adds --color.
func addColourFlag(cmd *cobra.Command, colour *string) {
	cmd.Flags().StringVar(colour, "color", "auto", "colours: auto (on a terminal, unless $NO_COLOR is set), always or never")
	completeWords(cmd, map[string][]string{"color": colours})
}

// screenOf finds out what is written to. colour is --color.
func screenOf(out io.Writer, colour string) (screen, error) {
	var s screen
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			s.width = width
		}
		s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	switch colour {
	case "auto":
	case "always":
		s.colour = true
	case "never":
		s.colour = false
	default:
		return s, fmt.Errorf("--color is %q; give auto, always or never", colour)
	}
	return s, nil
}

// leastWhy is how wide the last column has to be to be one; where there is less room, it goes below its row.
const leastWhy = 24

// grid prints rows in columns, headings first. The last column, which says why, ends where the screen does, or stands below where
// it has no room; a row is painted by its sign, if
// it has one in its first column.
func (s screen) grid(w io.Writer, rows [][]string) error {
	var below []string
	if s.width > 0 {
		rows, below = fit(rows, s.width)
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, line := range strings.SplitAfter(b.String(), "\n") {
		if i > 0 && i < len(rows) {
			line = s.painted(rows[i][0], line)
		}
		if i > 0 && i < len(below) && below[i] != "" {
			line += s.painted(rows[i][0], below[i]+"\n")
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// list prints rows as grid does, and counts those that are too many, unless every row is to be shown.
func (l look) list(w io.Writer, rows [][]string) error {
	if most := maxShown + 1; !l.wide && len(rows) > most {
		rows = append(slices.Clone(rows[:most]), []string{why.More(len(rows)-most) + "; -o wide has all"})
	}
	return l.grid(w, rows)
}

// summary is what a plan comes to, in one line.
func summary(add, remove int, perMonth float64) string {
	cost := "no change in cost"
	switch {
	case perMonth >= 0.005:
		cost = "+" + why.Dollars(perMonth) + "/month"
	case perMonth <= -0.005:
		cost = why.Dollars(perMonth) + "/month"
	}
	return fmt.Sprintf("Plan: %s to add, %d to remove, %s.", count(add, "node", "nodes"), remove, cost)
}

// painted is a line in the colour of its sign.
func (s screen) painted(sign, line string) string {
	paint := map[string]string{"+": paintGreen, "-": paintRed, "~": paintYellow, "=": paintDim}[sign]
	if !s.colour || paint == "" {
		return line
	}
	return paint + strings.TrimSuffix(line, "\n") + paintOff + "\n"
}

// fit makes rows fit into a width: their last column is cut, or taken off and returned as lines to stand below the rows. Rows that have
// fewer columns stay.
func fit(rows [][]string, width int) (fitted [][]string, below []string) {
	last := len(rows[0]) - 1
	room := width
	for i := range last {
		widest := 0
		for _, row := range rows {
			if len(row) > last {
				widest = max(widest, utf8.RuneCountInString(row[i]))
			}
		}
		room -= widest + 2
	}
	for _, row := range rows {
		under := ""
		switch {
		case len(row) <= last:
		case room < leastWhy:
			row, under = row[:last], cut("   "+row[last], width)
		default:
			row = append(slices.Clone(row[:last]), cut(row[last], room))
		}
		fitted, below = append(fitted, row), append(below, under)
	}
	return fitted, below
}

// slow is how long something may take before it is said that it goes on.
const slow = time.Second

// progress says on a terminal what is being done, once that takes longer than a second, and wipes it away at the end.
type progress struct {
	tell chan string
	done chan struct{}
}

// newProgress begins with something; where w is no terminal, nothing is ever said.
func newProgress(w io.Writer, what string) *progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return showProgress(w, what, time.Tick(slow))
}

// showProgress is newProgress on a terminal, with its clock.
func showProgress(w io.Writer, what string, tick <-chan time.Time) *progress {
	p := &progress{make(chan string), make(chan struct{})}
	go func() {
		defer close(p.done)
		shown := false
		for seconds := 1; ; {
			select {
			case next, more := <-p.tell:
				if !more {
					if shown {
						fmt.Fprint(w, "\r\x1b[K")
					}
					return
				}
				what = next
			case <-tick:
				shown = true
				fmt.Fprintf(w, "\r\x1b[K%s … %ds", what, seconds)
				seconds++
			}
		}
	}()
	return p
}

// on says what is done next.
func (p *progress) on(what string) {
	if p.tell != nil {
		p.tell <- what
	}
}

// end wipes it away. It may be called twice.
func (p *progress) end() {
	if p.tell != nil {
		close(p.tell)
		<-p.done
		p.tell = nil
	}
}
