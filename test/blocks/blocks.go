// Package blocks reads the command blocks of the documentation, so that tests run what readers are told to run. A block is fenced and
// marked as bash or sh, or is indented and begins with a command; a line before it says who runs it:
//
//	<!-- run by: TestName -->      the test of that name does, word for word or with names of its own
//	<!-- needs: an AWS account --> nobody does, because of that
package blocks

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is one block of commands.
type Block struct {
	Page string
	Line int
	// Test names the test that runs it, Needs what it cannot be run without; one of them is set if the block is marked.
	Test, Needs string
	Text        string
}

var (
	opening = regexp.MustCompile("^ *```(bash|sh|console|shell)\\b")
	fence   = regexp.MustCompile("^ *```")
	command = regexp.MustCompile(`^    (\$ )?(karpenter|kubectl|aws|make|go|helm|bin/\S+|curl|export|git|docker|promtool|envsubst) `)
	mark    = regexp.MustCompile(`^ *<!-- (run by|needs): (.+) -->$`)
)

// Read returns the blocks of a page.
func Read(page string) ([]Block, error) {
	raw, err := os.ReadFile(page)
	if err != nil {
		return nil, fmt.Errorf("reading command blocks: %w", err)
	}
	r := reader{page: page}
	for i, line := range strings.Split(string(raw), "\n") {
		r.take(i+1, line)
	}
	r.close()
	return r.blocks, nil
}

// reader goes through a page line by line.
type reader struct {
	page   string
	blocks []Block
	// open is the block that is being read; fenced says what ends it. foreign is inside of a fence of something else.
	open            *Block
	fenced, foreign bool
	// mark is the last mark, if nothing but empty lines came after it; blank says that the last line was empty.
	mark  []string
	blank bool
}

func (r *reader) take(number int, line string) {
	switch {
	case r.open != nil && r.fenced && fence.MatchString(line), r.open != nil && !r.fenced && line != "" && !strings.HasPrefix(line, "    "):
		fenced := r.fenced
		if r.close(); !fenced { // the line is not part of the block
			r.take(number, line)
		}
		return
	case r.open != nil:
		if !r.fenced {
			line = strings.TrimPrefix(line, "    ")
		}
		r.open.Text += strings.TrimPrefix(line, "$ ") + "\n"
		return
	case r.foreign:
		r.foreign = !fence.MatchString(line)
	case opening.MatchString(line):
		r.begin(number, true)
	case fence.MatchString(line):
		r.foreign = true
	case command.MatchString(line) && r.blank:
		r.begin(number, false)
		r.take(number, line)
		return
	}
	if m := mark.FindStringSubmatch(line); m != nil {
		r.mark = m
	} else if strings.TrimSpace(line) != "" {
		r.mark = nil
	}
	r.blank = strings.TrimSpace(line) == ""
}

func (r *reader) begin(number int, fenced bool) {
	r.open, r.fenced = &Block{Page: r.page, Line: number}, fenced
	switch {
	case r.mark == nil:
	case r.mark[1] == "run by":
		r.open.Test = r.mark[2]
	default:
		r.open.Needs = r.mark[2]
	}
}

func (r *reader) close() {
	if r.open != nil {
		r.blocks = append(r.blocks, *r.open)
	}
	r.open, r.mark, r.blank = nil, nil, false
}

// Of returns the text of the blocks of a page that a test runs.
func Of(page, test string) ([]string, error) {
	all, err := Read(page)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range all {
		if b.Test == test {
			out = append(out, b.Text)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no block that says: run by: %s", page, test)
	}
	return out, nil
}
