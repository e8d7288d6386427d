package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"karpenter/internal/engine/why"
)

// Headline is the answer in one or two sentences: what is the matter, and the smallest change that would flip it.
func (a *Answer) Headline() string {
	text := a.name() + " " + a.Verdict
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
		text += "."
	}
	if len(a.Change) > 0 {
		text += " " + a.Change[0].Text
	}
	return text
}

func (a *Answer) name() string {
	kind := map[string]string{"Pod": "pod", "Node": "node", "Move": "move"}[a.Subject.Kind]
	if kind == "" {
		kind = a.Subject.Kind
	}
	if a.Subject.Namespace != "" {
		return kind + " " + a.Subject.Namespace + "/" + a.Subject.Name
	}
	return kind + " " + a.Subject.Name
}

// Text prints the answer for people: the headline, then what it rests on, line by line.
func (a *Answer) Text(w io.Writer) error {
	return a.print(w, func(b *strings.Builder, r why.Reason) { fmt.Fprintf(b, "  %s\n", r.Line()) })
}

// Tree prints the answer with every reason as a tree.
func (a *Answer) Tree(w io.Writer) error {
	return a.print(w, func(b *strings.Builder, r why.Reason) {
		for _, line := range strings.Split(strings.TrimRight(r.Tree(), "\n"), "\n") {
			fmt.Fprintf(b, "  %s\n", line)
		}
	})
}

func (a *Answer) print(w io.Writer, reason func(*strings.Builder, why.Reason)) error {
	var b strings.Builder
	b.WriteString(a.Headline() + "\n")
	reasons := func(title string, list []why.Reason) {
		if len(list) == 0 || len(list) == 1 && len(list[0].Because) == 0 && strings.Contains(a.Verdict, list[0].Text) {
			return // the headline has said it
		}
		b.WriteString("\n" + title + "\n")
		for _, r := range list {
			reason(&b, r)
		}
	}
	reasons("Why", a.Why)
	if len(a.Change) > 1 {
		b.WriteString("\nThis would help too\n")
		for _, x := range a.Change[1:] {
			fmt.Fprintf(&b, "  %s\n", x.Text)
		}
	}
	reasons("Tried", a.Tried)
	if a.Nearest != nil && !strings.Contains(a.Headline(), a.Nearest.Text) {
		fmt.Fprintf(&b, "\nNearest\n  %s\n", a.Nearest.Text)
	}
	if len(a.Facts) > 0 {
		b.WriteString("\nFacts\n")
		tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
		for _, f := range a.Facts {
			fmt.Fprintf(tw, "  %s\t%s\n", f.Name, f.Value)
		}
		if err := tw.Flush(); err != nil {
			return fmt.Errorf("print facts: %w", err)
		}
	}
	if len(a.History) > 0 {
		b.WriteString("\nHistory\n")
		for _, e := range a.History {
			fmt.Fprintf(&b, "  #%d %s %s %s: %s%s\n", e.ID, e.At.UTC().Format("2006-01-02 15:04:05"), e.Kind, e.Outcome, e.Summary, prefixed("; ", e.Result))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
