package userdata

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// tomlMaxDepth bounds how far arrays and tables may nest: settings of an operating system go no deeper than a few levels.
const tomlMaxDepth = 32

// tomlReader reads a TOML 1.0 document from front to back.
type tomlReader struct {
	text string
	at   int
	root *tomlTable
	// here is the table that the last header opened.
	here *tomlTable

	// counted and line are a byte that was reached and its line, so that finding lines costs one pass in all.
	counted, line int
}

// readTOML reads spec.userData as TOML. Times are checked for their form and not against a calendar.
func readTOML(text string) (*tomlTable, error) {
	root := newTOMLTable(tomlHeader)
	r := &tomlReader{text: strings.ReplaceAll(text, "\r\n", "\n"), root: root, here: root}
	for i, char := range r.text {
		if _, size := utf8.DecodeRuneInString(r.text[i:]); char == utf8.RuneError && size == 1 {
			r.at = i
			return nil, r.wrong("holds a byte that is not text", "encode it in UTF-8")
		}
	}
	for {
		r.skipBlank(true)
		if r.at == len(r.text) {
			return root, nil
		}
		read := r.readPair
		if r.text[r.at] == '[' {
			read = r.readHeader
		}
		if err := read(); err != nil {
			return nil, err
		}
		r.skipBlank(false)
		if r.at < len(r.text) && r.text[r.at] != '\n' {
			return nil, r.wrong("is not TOML: "+quoted(r.restOfLine())+" follows what should end the line", "put it on a line of its own")
		}
	}
}

func (r *tomlReader) wrong(wrong, cure string) error {
	return &InputError{Field: fieldUserData, Line: r.lineNow(), Wrong: wrong, Cure: cure}
}

// lineNow is the line that is being read, counted from 1.
func (r *tomlReader) lineNow() int {
	if r.at < r.counted {
		r.counted, r.line = 0, 0
	}
	r.line += strings.Count(r.text[r.counted:r.at], "\n")
	r.counted = r.at
	return r.line + 1
}

func (r *tomlReader) restOfLine() string {
	line, _, _ := strings.Cut(r.text[r.at:], "\n")
	return line
}

// peek is the byte that comes next, 0 at the end.
func (r *tomlReader) peek() byte {
	if r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *tomlReader) skip(prefix string) bool {
	if !strings.HasPrefix(r.text[r.at:], prefix) {
		return false
	}
	r.at += len(prefix)
	return true
}

// skipBlank skips blanks and a comment, and with lines all lines that hold nothing else. A control character in a
// comment stays where it is, to be refused as what follows.
func (r *tomlReader) skipBlank(lines bool) {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == ' ' || c == '\t' || lines && c == '\n':
			r.at++
		case c == '#':
			for r.at < len(r.text) && !isTOMLControl(r.text[r.at]) {
				r.at++
			}
			if !lines || r.peek() != '\n' {
				return
			}
		default:
			return
		}
	}
}

func isTOMLControl(c byte) bool {
	return c < 0x20 && c != '\t' || c == 0x7f
}

// readHeader reads [name] or [[name]] and opens that table.
func (r *tomlReader) readHeader() error {
	opening, closing := "[", "]"
	if strings.HasPrefix(r.text[r.at:], "[[") {
		opening, closing = "[[", "]]"
	}
	r.at += len(opening)
	path, err := r.readKey()
	if err != nil {
		return err
	}
	if !r.skip(closing) {
		return r.wrong("is not TOML: the name of a table is not closed", "write "+closing+" after it")
	}
	parent, last := r.root, path[len(path)-1]
	for _, key := range path[:len(path)-1] {
		if parent, err = r.enter(parent, key); err != nil {
			return err
		}
	}
	entry, has := parent.entries[last]
	made := newTOMLTable(tomlHeader)
	if opening == "[[" {
		tables, is := entry.value.(*tomlTables)
		switch {
		case !has:
			parent.entries[last] = tomlEntry{value: &tomlTables{list: []*tomlTable{made}}, line: r.lineNow()}
		case is:
			tables.list = append(tables.list, made)
		default:
			return r.twice(path)
		}
		r.here = made
		return nil
	}
	if has {
		table, is := entry.value.(*tomlTable)
		if !is || table.origin != tomlImplicit {
			return r.twice(path)
		}
		table.origin = tomlHeader
		r.here = table
		return nil
	}
	parent.entries[last] = tomlEntry{value: made, line: r.lineNow()}
	r.here = made
	return nil
}

// enter goes into the table at key on the way to one that a header names.
func (r *tomlReader) enter(parent *tomlTable, key string) (*tomlTable, error) {
	entry, has := parent.entries[key]
	if !has {
		made := newTOMLTable(tomlImplicit)
		parent.entries[key] = tomlEntry{value: made, line: r.lineNow()}
		return made, nil
	}
	switch value := entry.value.(type) {
	case *tomlTable:
		if value.origin != tomlInline {
			return value, nil
		}
	case *tomlTables:
		return value.list[len(value.list)-1], nil
	}
	return nil, r.wrong("is not TOML: "+quoted(key)+" has a value and cannot hold tables as well", "give it one or the other")
}

func (r *tomlReader) twice(path []string) error {
	return r.wrong("is not TOML: "+quoted(strings.Join(path, "."))+" is given twice", "leave one of the two")
}

// readPair reads key = value into the open table.
func (r *tomlReader) readPair() error {
	return r.readInto(r.here, 0)
}

func (r *tomlReader) readInto(table *tomlTable, depth int) error {
	line := r.lineNow()
	path, err := r.readKey()
	if err != nil {
		return err
	}
	if !r.skip("=") {
		return r.wrong("is not TOML: "+quoted(strings.Join(path, "."))+" has no value", "write key = value")
	}
	for _, key := range path[:len(path)-1] {
		entry, has := table.entries[key]
		if !has {
			entry = tomlEntry{value: newTOMLTable(tomlDotted), line: line}
			table.entries[key] = entry
		}
		inner, is := entry.value.(*tomlTable)
		if !is || inner.origin != tomlDotted && inner.origin != tomlImplicit {
			return r.twice(path)
		}
		inner.origin = tomlDotted
		table = inner
	}
	last := path[len(path)-1]
	if _, has := table.entries[last]; has {
		return r.twice(path)
	}
	r.skipBlank(false)
	value, err := r.readValue(depth)
	if err != nil {
		return err
	}
	table.entries[last] = tomlEntry{value: value, line: line}
	return nil
}

// readKey reads a name, which dots may divide, and the blanks around it.
func (r *tomlReader) readKey() ([]string, error) {
	var path []string
	for {
		r.skipBlank(false)
		var name string
		var err error
		switch c := r.peek(); c {
		case '"', '\'':
			if strings.HasPrefix(r.text[r.at:], strings.Repeat(string(c), 3)) {
				return nil, r.wrong("is not TOML: a key cannot span lines", "use one pair of quotes")
			}
			name, err = r.readString()
		default:
			begin := r.at
			for r.at < len(r.text) && tomlBareKey.MatchString(r.text[r.at:r.at+1]) {
				r.at++
			}
			name = r.text[begin:r.at]
			if name == "" {
				return nil, r.wrong("is not TOML: expected a key at "+quoted(r.restOfLine()), "write [table] or key = value")
			}
		}
		if err != nil {
			return nil, err
		}
		path = append(path, name)
		if len(path) > tomlMaxDepth {
			return nil, r.tooDeep()
		}
		r.skipBlank(false)
		if !r.skip(".") {
			return path, nil
		}
	}
}

func (r *tomlReader) tooDeep() error {
	return r.wrong("nests deeper than "+strconv.Itoa(tomlMaxDepth)+" levels", "give settings that the image knows")
}
