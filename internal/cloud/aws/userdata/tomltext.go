package userdata

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	tomlBareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

	tomlDecimal = regexp.MustCompile(`^[+-]?(0|[1-9](_?[0-9])*)$`)
	tomlRadix   = regexp.MustCompile(`^0(x[0-9A-Fa-f](_?[0-9A-Fa-f])*|o[0-7](_?[0-7])*|b[01](_?[01])*)$`)
	tomlFloat   = regexp.MustCompile(`^[+-]?((0|[1-9](_?[0-9])*)(\.[0-9](_?[0-9])*)?([eE][+-]?[0-9](_?[0-9])*)?|inf|nan)$`)
	tomlTime    = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ]` + tomlClock + `([Zz]|[+-][0-9]{2}:[0-9]{2})?)?|` + tomlClock + `)$`)
	tomlHour    = regexp.MustCompile(`^ [0-9]{2}:`)
)

const tomlClock = `[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?`

func tomlKey(key string) string {
	if tomlBareKey.MatchString(key) {
		return key
	}
	return tomlString(key)
}

// tomlString prefers single quotes, within which everything means itself.
func tomlString(s string) string {
	plain := utf8.ValidString(s)
	for _, r := range s {
		if r == '\'' || r < 0x20 || r == 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlEscapes are the characters that one letter stands for after a backslash.
var tomlEscapes = map[byte]byte{'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', '"': '"', '\\': '\\'}
