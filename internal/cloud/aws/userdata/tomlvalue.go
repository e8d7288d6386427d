package userdata

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// readValue reads what stands after an equals sign or in an array.
func (r *tomlReader) readValue(depth int) (any, error) {
	if depth > tomlMaxDepth {
		return nil, r.tooDeep()
	}
	switch r.peek() {
	case '"', '\'':
		return r.readString()
	case '[':
		return r.readArray(depth)
	case '{':
		return r.readInline(depth)
	}
	begin := r.at
	for r.at < len(r.text) && isTOMLWord(r.text[r.at]) {
		r.at++
	}
	// A time may have a blank between day and hour.
	if hour := tomlHour.FindString(r.text[r.at:]); hour != "" && r.at-begin == len("1979-05-27") {
		for r.at += len(hour); r.at < len(r.text) && isTOMLWord(r.text[r.at]); {
			r.at++
		}
	}
	word := r.text[begin:r.at]
	value, is := tomlWord(word)
	if !is {
		r.at = begin
		if word == "" {
			word = r.restOfLine()
		}
		return nil, r.wrong("is not TOML: "+quoted(word)+" is not a value", "write a text in quotes, a number, true, false, [list] or {table}")
	}
	return value, nil
}

func isTOMLWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("+-_.:", c) >= 0
}

// tomlWord reads a value without quotes.
func tomlWord(word string) (any, bool) {
	switch {
	case word == "true":
		return true, true
	case word == "false":
		return false, true
	case tomlDecimal.MatchString(word):
		_, err := strconv.ParseInt(strings.ReplaceAll(word, "_", ""), 10, 64)
		return tomlLiteral{word, tomlIsInteger}, err == nil
	case tomlRadix.MatchString(word):
		_, err := strconv.ParseInt(word, 0, 64)
		return tomlLiteral{word, tomlIsInteger}, err == nil
	case tomlFloat.MatchString(word):
		return tomlLiteral{word, tomlIsFloat}, true
	case tomlTime.MatchString(word):
		return tomlLiteral{word, tomlIsTime}, true
	}
	return nil, false
}

func (r *tomlReader) readArray(depth int) (any, error) {
	r.at++
	list := []any{}
	for {
		r.skipBlank(true)
		if r.skip("]") {
			return list, nil
		}
		value, err := r.readValue(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		r.skipBlank(true)
		if !r.skip(",") && r.peek() != ']' {
			return nil, r.wrong("is not TOML: a list is not closed", "write , between its values and ] after the last")
		}
	}
}

func (r *tomlReader) readInline(depth int) (any, error) {
	r.at++
	table := newTOMLTable(tomlInline)
	r.skipBlank(false)
	for first := true; !r.skip("}"); first = false {
		if !first && !r.skip(",") {
			return nil, r.wrong("is not TOML: an inline table is not closed", "write , between its values and } after the last, on one line")
		}
		if err := r.readInto(table, depth+1); err != nil {
			return nil, err
		}
		r.skipBlank(false)
	}
	closeTOMLTable(table)
	return table, nil
}

// closeTOMLTable keeps headers from adding to tables that dotted keys made within an inline one.
func closeTOMLTable(table *tomlTable) {
	for _, entry := range table.entries {
		if nested, is := entry.value.(*tomlTable); is {
			nested.origin = tomlInline
			closeTOMLTable(nested)
		}
	}
}

// readString reads a string of any of the four kinds.
func (r *tomlReader) readString() (string, error) {
	quote := r.text[r.at : r.at+1]
	lines := r.skip(strings.Repeat(quote, 3))
	if lines {
		r.skip("\n")
	} else {
		r.at++
	}
	var b strings.Builder
	for r.at < len(r.text) {
		c := r.text[r.at]
		switch {
		case c == quote[0]:
			if end := r.endOfString(quote, lines); end >= 0 {
				b.WriteString(strings.Repeat(quote, end))
				return b.String(), nil
			}
			b.WriteByte(c)
			r.at++
		case c == '\\' && quote == `"`:
			if err := r.readEscape(&b, lines); err != nil {
				return "", err
			}
		case isTOMLControl(c) && (c != '\n' || !lines):
			return "", r.wrong("is not TOML: a string holds a line break or control character", "close it on its line, write it as \\n or \\u0000, or use three quotes")
		default:
			b.WriteByte(c)
			r.at++
		}
	}
	return "", r.wrong("is not TOML: a string is not closed", "write "+quote+" after it")
}

// endOfString moves behind the closing quotes. It returns how many quotes before them belong to the string, or -1 if
// the quote that comes next closes nothing.
func (r *tomlReader) endOfString(quote string, lines bool) int {
	if !lines {
		r.at++
		return 0
	}
	count := 0
	for count < 5 && strings.HasPrefix(r.text[r.at+count:], quote) {
		count++
	}
	if count < 3 {
		return -1
	}
	r.at += count
	return count - 3
}

func (r *tomlReader) readEscape(b *strings.Builder, lines bool) error {
	rest := r.text[r.at+1:]
	if rest == "" {
		return r.wrong("is not TOML: a string is not closed", `write " after it`)
	}
	if char, is := tomlEscapes[rest[0]]; is {
		b.WriteByte(char)
		r.at += 2
		return nil
	}
	if digits := map[byte]int{'u': 4, 'U': 8}[rest[0]]; digits > 0 && len(rest) > digits {
		code, err := strconv.ParseUint(rest[1:1+digits], 16, 32)
		if err == nil && code <= utf8.MaxRune && utf8.ValidRune(rune(code)) {
			b.WriteRune(rune(code))
			r.at += 2 + digits
			return nil
		}
	}
	// A backslash at the end of a line takes the break and what blanks follow away.
	if blank := strings.TrimLeft(rest, " \t"); lines && strings.HasPrefix(blank, "\n") {
		r.at = len(r.text) - len(strings.TrimLeft(blank, " \t\n"))
		return nil
	}
	return r.wrong("is not TOML: "+quoted(`\`+rest[:1])+" is not an escape", `double the backslash, or use single quotes`)
}
