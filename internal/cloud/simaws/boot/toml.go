package boot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tomlTable is a TOML table: values are string, float64, bool, []any or
// tomlTable.
type tomlTable map[string]any

// tomlParser reads the TOML that Bottlerocket settings are written in. Dates
// are kept as text.
type tomlParser struct {
	s    string
	i    int
	line int
}

const maxTOMLDepth = 32

func parseTOML(s string) (tomlTable, error) {
	p := &tomlParser{s: strings.ReplaceAll(s, "\r\n", "\n"), line: 1}
	root := tomlTable{}
	at := root
	for {
		p.skip(true)
		if p.i == len(p.s) {
			return root, nil
		}
		var err error
		if p.s[p.i] == '[' {
			at, err = p.header(root)
		} else {
			err = p.pair(at, 0)
		}
		if err == nil {
			err = p.endOfLine()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
}

// skip passes blanks and comments, and with lines also line ends.
func (p *tomlParser) skip(lines bool) {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '\n' && lines:
			p.line++
			p.i++
		case c == ' ' || c == '\t':
			p.i++
		case c == '#':
			for p.i < len(p.s) && p.s[p.i] != '\n' {
				p.i++
			}
		default:
			return
		}
	}
}

func (p *tomlParser) endOfLine() error {
	p.skip(false)
	if p.i < len(p.s) && p.s[p.i] != '\n' {
		return fmt.Errorf("%q follows a value that is already complete", p.near())
	}
	return nil
}

func (p *tomlParser) near() string { return p.s[p.i:min(len(p.s), p.i+20)] }

func (p *tomlParser) header(root tomlTable) (tomlTable, error) {
	p.i++
	list := p.i < len(p.s) && p.s[p.i] == '['
	if list {
		p.i++
	}
	path, err := p.key()
	if err != nil {
		return nil, err
	}
	end := "]"
	if list {
		end = "]]"
	}
	if !strings.HasPrefix(p.s[p.i:], end) {
		return nil, fmt.Errorf("table header is not closed before %q", p.near())
	}
	p.i += len(end)
	parent, err := descend(root, path[:len(path)-1])
	if err != nil {
		return nil, err
	}
	last := path[len(path)-1]
	if !list {
		return descend(parent, []string{last})
	}
	t := tomlTable{}
	switch old := parent[last].(type) {
	case nil:
		parent[last] = []any{t}
	case []any:
		parent[last] = append(old, t)
	default:
		return nil, fmt.Errorf("%q is already something else than a list of tables", last)
	}
	return t, nil
}

// descend walks to a table, making what is missing.
func descend(t tomlTable, path []string) (tomlTable, error) {
	for _, k := range path {
		switch v := t[k].(type) {
		case nil:
			next := tomlTable{}
			t[k] = next
			t = next
		case tomlTable:
			t = v
		case []any:
			last, ok := v[len(v)-1].(tomlTable)
			if !ok {
				return nil, fmt.Errorf("%q is a list, not a table", k)
			}
			t = last
		default:
			return nil, fmt.Errorf("%q is a value, not a table", k)
		}
	}
	return t, nil
}

// key reads a dotted key.
func (p *tomlParser) key() ([]string, error) {
	var path []string
	for {
		p.skip(false)
		if p.i == len(p.s) {
			return nil, errors.New("a key is missing")
		}
		var part string
		if c := p.s[p.i]; c == '"' || c == '\'' {
			v, err := p.str()
			if err != nil {
				return nil, err
			}
			part = v
		} else {
			start := p.i
			for p.i < len(p.s) && bareKey(p.s[p.i]) {
				p.i++
			}
			if part = p.s[start:p.i]; part == "" {
				return nil, fmt.Errorf("%q is not a key", p.near())
			}
		}
		if path = append(path, part); len(path) > maxTOMLDepth {
			return nil, errors.New("the key has too many parts")
		}
		p.skip(false)
		if p.i == len(p.s) || p.s[p.i] != '.' {
			return path, nil
		}
		p.i++
	}
}

func bareKey(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// pair reads a key and its value into a table.
func (p *tomlParser) pair(t tomlTable, depth int) error {
	path, err := p.key()
	if err != nil {
		return err
	}
	if p.i == len(p.s) || p.s[p.i] != '=' {
		return fmt.Errorf("expected = after key %s", strings.Join(path, "."))
	}
	p.i++
	v, err := p.value(depth)
	if err != nil {
		return err
	}
	t, err = descend(t, path[:len(path)-1])
	if err != nil {
		return err
	}
	last := path[len(path)-1]
	if _, dup := t[last]; dup {
		return fmt.Errorf("key %s is given twice", strings.Join(path, "."))
	}
	t[last] = v
	return nil
}

func (p *tomlParser) value(depth int) (any, error) {
	if depth > maxTOMLDepth {
		return nil, errors.New("nested too deeply")
	}
	p.skip(false)
	if p.i == len(p.s) {
		return nil, errors.New("a value is missing")
	}
	switch p.s[p.i] {
	case '"', '\'':
		return p.str()
	case '[':
		return p.array(depth)
	case '{':
		return p.inline(depth)
	}
	start := p.i
	for p.i < len(p.s) && strings.IndexByte(",]}\n#", p.s[p.i]) < 0 {
		p.i++
	}
	word := strings.TrimSpace(p.s[start:p.i])
	switch word {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	plain := strings.ReplaceAll(word, "_", "")
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return float64(n), nil
	}
	if f, err := strconv.ParseFloat(plain, 64); err == nil {
		return f, nil
	}
	if len(word) >= 8 && word[0] >= '0' && word[0] <= '9' && strings.ContainsAny(word, ":-") {
		return word, nil
	}
	return nil, fmt.Errorf("%q is not a value; strings need quotes", word)
}

func (p *tomlParser) array(depth int) (any, error) {
	p.i++
	out := []any{}
	for {
		p.skip(true)
		if p.i == len(p.s) {
			return nil, errors.New("a list is not closed")
		}
		if p.s[p.i] == ']' {
			p.i++
			return out, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		p.skip(true)
		if p.i < len(p.s) && p.s[p.i] == ',' {
			p.i++
		} else if p.i < len(p.s) && p.s[p.i] != ']' {
			return nil, fmt.Errorf("expected , or ] before %q", p.near())
		}
	}
}

func (p *tomlParser) inline(depth int) (any, error) {
	if depth >= maxTOMLDepth {
		return nil, errors.New("nested too deeply")
	}
	p.i++
	t := tomlTable{}
	for {
		p.skip(false)
		if p.i == len(p.s) {
			return nil, errors.New("an inline table is not closed")
		}
		if p.s[p.i] == '}' {
			p.i++
			return t, nil
		}
		if err := p.pair(t, depth+1); err != nil {
			return nil, err
		}
		p.skip(false)
		if p.i < len(p.s) && p.s[p.i] == ',' {
			p.i++
		} else if p.i < len(p.s) && p.s[p.i] != '}' {
			return nil, fmt.Errorf("expected , or } before %q", p.near())
		}
	}
}

// str reads any of the four kinds of strings.
func (p *tomlParser) str() (string, error) {
	q := p.s[p.i : p.i+1]
	long := strings.HasPrefix(p.s[p.i:], strings.Repeat(q, 3))
	if long {
		q = strings.Repeat(q, 3)
	}
	p.i += len(q)
	if long && p.i < len(p.s) && p.s[p.i] == '\n' {
		p.line++
		p.i++
	}
	var b strings.Builder
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case strings.HasPrefix(p.s[p.i:], q):
			p.i += len(q)
			return b.String(), nil
		case c == '\n' && !long:
			return "", errors.New("a string is not closed on its line")
		case c == '\\' && q[0] == '"':
			if err := p.escape(&b); err != nil {
				return "", err
			}
			continue
		case c == '\n':
			p.line++
		}
		b.WriteByte(c)
		p.i++
	}
	return "", errors.New("a string is not closed")
}

func (p *tomlParser) escape(b *strings.Builder) error {
	p.i++
	if p.i == len(p.s) {
		return errors.New("a string is not closed")
	}
	c := p.s[p.i]
	if i := strings.IndexByte(`btnfr"\`, c); i >= 0 {
		b.WriteByte("\b\t\n\f\r\"\\"[i])
		p.i++
		return nil
	}
	if c == '\n' {
		p.skip(true)
		return nil
	}
	width := map[byte]int{'u': 4, 'U': 8}[c]
	if width == 0 || p.i+width >= len(p.s) {
		return fmt.Errorf("unknown escape \\%c", c)
	}
	v, err := strconv.ParseUint(p.s[p.i+1:p.i+1+width], 16, 32)
	if err != nil || !utf8.ValidRune(rune(v)) {
		return fmt.Errorf("bad escape \\%s", p.s[p.i:p.i+1+width])
	}
	b.WriteRune(rune(v))
	p.i += width + 1
	return nil
}
