package yaml

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value reads a scalar or flow collection that begins with text on the present
// line. Lines indented more than parent belong to it.
func (p *parser) value(text string, parent int) (*Node, error) {
	line := p.first + p.pos + 1
	tag, text, err := p.takeTag(text)
	if err != nil {
		return nil, err
	}
	var n *Node
	switch {
	case text == "":
		p.pos++
		return &Node{Tag: tag, Line: line}, nil
	case text[0] == '|' || text[0] == '>':
		n, err = p.blockScalar(text, parent)
	case text[0] == '"' || text[0] == '\'' || text[0] == '[' || text[0] == '{':
		n, err = p.flowValue(text)
	case text[0] == '@' || text[0] == '`' || text[0] == '%':
		return nil, p.fail("a plain value cannot begin with %q", text[:1])
	default:
		n, err = p.plain(text, parent)
	}
	if err != nil {
		return nil, err
	}
	n.Tag, n.Line = tag, line
	return n, nil
}

// plain reads an unquoted scalar; further lines are folded into it.
func (p *parser) plain(text string, parent int) (*Node, error) {
	parts := []string{cutComment(text)}
	p.pos++
	for p.pos < len(p.lines) {
		l := p.lines[p.pos]
		if blank(l) || indentOf(l) <= parent {
			break
		}
		t := strings.TrimSpace(l)
		if _, _, isKey := splitKey(t); isKey {
			return nil, p.fail("%q follows a value that is already complete", t)
		}
		parts = append(parts, cutComment(t))
		p.pos++
	}
	return &Node{Text: strings.Join(parts, " ")}, nil
}

func cutComment(s string) string {
	if i := strings.Index(s, " #"); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// blockScalar reads a literal (|) or folded (>) scalar.
func (p *parser) blockScalar(header string, parent int) (*Node, error) {
	head := strings.Fields(header)[0]
	folded, chomp, indent := head[0] == '>', byte(0), 0
	for _, c := range []byte(head[1:]) {
		switch {
		case c == '-' || c == '+':
			chomp = c
		case c >= '1' && c <= '9':
			indent = max(parent, 0) + int(c-'0')
		default:
			return nil, p.fail("block scalar header %q is not understood", head)
		}
	}
	p.pos++
	var lines []string
	for ; p.pos < len(p.lines); p.pos++ {
		l := p.lines[p.pos]
		if strings.TrimSpace(l) == "" {
			lines = append(lines, l[min(len(l), indent):])
			continue
		}
		n := indentOf(l)
		if indent == 0 {
			if n <= parent {
				break
			}
			indent = n
			for i := range lines {
				lines[i] = ""
			}
		}
		if n < indent {
			break
		}
		lines = append(lines, l[indent:])
	}
	end := len(lines)
	for end > 0 && strings.TrimSpace(lines[end-1]) == "" {
		end--
	}
	trailing := len(lines) - end
	text := strings.Join(lines[:end], "\n")
	if folded {
		text = fold(lines[:end])
	}
	if end > 0 && chomp != '-' {
		text += "\n"
	}
	if chomp == '+' {
		text += strings.Repeat("\n", trailing)
	}
	return &Node{Text: text, Quoted: true}, nil
}

// fold joins lines by spaces, except around empty and more indented ones.
func fold(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			prev := lines[i-1]
			keep := l == "" || strings.HasPrefix(l, " ") || strings.HasPrefix(prev, " ")
			switch {
			case keep:
				b.WriteByte('\n')
			case prev != "":
				b.WriteByte(' ')
			}
		}
		b.WriteString(l)
	}
	return b.String()
}

var errMore = errors.New("the value is not closed")

// flowValue reads a quoted scalar or flow collection, over several lines if
// need be.
func (p *parser) flowValue(text string) (*Node, error) {
	for {
		f := &flow{s: text}
		n, err := f.node(0)
		if errors.Is(err, errMore) && p.pos+1 < len(p.lines) {
			p.pos++
			text += "\n" + strings.TrimLeft(p.lines[p.pos], " ")
			continue
		}
		if err != nil {
			return nil, p.fail("%v", err)
		}
		if rest := f.s[f.i:]; !blank(rest) {
			return nil, p.fail("%q follows a value that is already complete", strings.TrimSpace(rest))
		}
		p.pos++
		return n, nil
	}
}

// flow reads JSON-like text.
type flow struct {
	s string
	i int
}

func (f *flow) space() {
	for f.i < len(f.s) {
		switch c := f.s[f.i]; {
		case c == ' ' || c == '\n' || c == '\t':
			f.i++
		case c == '#' && (f.i == 0 || strings.IndexByte(" \n\t", f.s[f.i-1]) >= 0):
			for f.i < len(f.s) && f.s[f.i] != '\n' {
				f.i++
			}
		default:
			return
		}
	}
}

func (f *flow) node(depth int) (*Node, error) {
	if depth > maxNesting {
		return nil, errors.New("nested too deeply")
	}
	f.space()
	if f.i == len(f.s) {
		return nil, errMore
	}
	switch c := f.s[f.i]; c {
	case '"', '\'':
		v, n, err := quoted(f.s[f.i:])
		if err != nil {
			return nil, err
		}
		f.i += n
		return &Node{Text: v, Quoted: true}, nil
	case '[':
		return f.sequence(depth)
	case '{':
		return f.mapping(depth)
	case '!':
		end := strings.IndexAny(f.s[f.i:], " \n,]}")
		if end < 0 {
			return nil, errMore
		}
		tag := f.s[f.i+1 : f.i+end]
		f.i += end
		n, err := f.node(depth + 1)
		if err == nil {
			n.Tag = tag
		}
		return n, err
	case '&', '*':
		return nil, errors.New("anchors and aliases are not supported")
	}
	start := f.i
	for f.i < len(f.s) {
		c := f.s[f.i]
		if strings.IndexByte(",[]{}\n", c) >= 0 || c == ':' && f.endsKey() || c == '#' && f.s[max(f.i-1, 0)] == ' ' {
			break
		}
		f.i++
	}
	if f.i == len(f.s) && depth > 0 {
		return nil, errMore
	}
	return &Node{Text: strings.TrimSpace(f.s[start:f.i])}, nil
}

// endsKey says whether the colon at the present place ends a key.
func (f *flow) endsKey() bool {
	return f.i+1 == len(f.s) || strings.IndexByte(" \n,]}", f.s[f.i+1]) >= 0
}

func (f *flow) sequence(depth int) (*Node, error) {
	out := &Node{Kind: Sequence}
	f.i++
	for {
		f.space()
		if f.i == len(f.s) {
			return nil, errMore
		}
		if f.s[f.i] == ']' {
			f.i++
			return out, nil
		}
		n, err := f.node(depth + 1)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, n)
		if err := f.separator(']'); err != nil {
			return nil, err
		}
	}
}

func (f *flow) mapping(depth int) (*Node, error) {
	out := &Node{Kind: Mapping}
	f.i++
	for {
		f.space()
		if f.i == len(f.s) {
			return nil, errMore
		}
		if f.s[f.i] == '}' {
			f.i++
			return out, nil
		}
		key, err := f.node(depth + 1)
		if err != nil {
			return nil, err
		}
		if key.Kind != Scalar {
			return nil, errors.New("a key must be a scalar")
		}
		if out.Get(key.Text) != nil {
			return nil, errors.New("key " + strconv.Quote(key.Text) + " is given twice")
		}
		f.space()
		if f.i == len(f.s) {
			return nil, errMore
		}
		value := &Node{}
		if f.s[f.i] == ':' {
			f.i++
			f.space()
			if f.i < len(f.s) && f.s[f.i] != ',' && f.s[f.i] != '}' {
				if value, err = f.node(depth + 1); err != nil {
					return nil, err
				}
			}
		}
		out.Fields = append(out.Fields, Field{key.Text, value})
		if err := f.separator('}'); err != nil {
			return nil, err
		}
	}
}

// separator takes a comma, or leaves the closing bracket.
func (f *flow) separator(end byte) error {
	f.space()
	switch {
	case f.i == len(f.s):
		return errMore
	case f.s[f.i] == ',':
		f.i++
	case f.s[f.i] != end:
		return errors.New("expected , or " + string(end) + " before " + strconv.Quote(f.s[f.i:min(len(f.s), f.i+20)]))
	}
	return nil
}

// quoted reads a quoted scalar at the start of s and says how long it was.
func quoted(s string) (string, int, error) {
	var b strings.Builder
	q := s[0]
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == q && q == '\'' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == q:
			return b.String(), i + 1, nil
		case c == '\\' && q == '"':
			n, err := escape(&b, s[i+1:])
			if err != nil {
				return "", 0, err
			}
			i += n
		case c == '\n':
			// A line break inside quotes is a space, an empty line a break.
			if strings.HasPrefix(s[i+1:], "\n") {
				continue
			}
			if i > 0 && s[i-1] == '\n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(' ')
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, errMore
}

// escape decodes what follows a backslash and says how many bytes it took.
func escape(b *strings.Builder, s string) (int, error) {
	if s == "" {
		return 0, errMore
	}
	if i := strings.IndexByte(`abtnvfre"\/ 0`, s[0]); i >= 0 {
		b.WriteByte("\a\b\t\n\v\f\r\x1b\"\\/ \x00"[i])
		return 1, nil
	}
	if s[0] == '\n' {
		return 1, nil
	}
	width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if width == 0 || len(s) < width+1 {
		return 0, errors.New("unknown escape \\" + s[:1])
	}
	v, err := strconv.ParseUint(s[1:width+1], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) && width == 8 {
		return 0, errors.New("bad escape \\" + s[:width+1])
	}
	b.WriteRune(rune(v))
	return width + 1, nil
}
