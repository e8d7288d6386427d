package userdata

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// writeYAML writes an object in block style with sorted keys. Values are what
// encoding/json makes of JSON with UseNumber.
func writeYAML(object map[string]any) string {
	var b strings.Builder
	writeYAMLMap(&b, object, 0)
	return b.String()
}

func writeYAMLMap(b *strings.Builder, object map[string]any, indent int) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		b.WriteString(strings.Repeat(" ", indent) + yamlString(key) + ":")
		switch value := object[key].(type) {
		case map[string]any:
			if len(value) == 0 {
				b.WriteString(" {}\n")
				continue
			}
			b.WriteString("\n")
			writeYAMLMap(b, value, indent+2)
		case []any:
			if len(value) == 0 {
				b.WriteString(" []\n")
				continue
			}
			b.WriteString("\n")
			writeYAMLList(b, value, indent)
		default:
			b.WriteString(" " + yamlScalar(value) + "\n")
		}
	}
}

// writeYAMLList writes items with their dash at indent. What is nested begins on the line of the dash, two further in.
func writeYAMLList(b *strings.Builder, list []any, indent int) {
	for _, item := range list {
		var nested strings.Builder
		switch value := item.(type) {
		case map[string]any:
			if len(value) == 0 {
				nested.WriteString("{}\n")
			}
			writeYAMLMap(&nested, value, indent+2)
		case []any:
			if len(value) == 0 {
				nested.WriteString("[]\n")
			}
			writeYAMLList(&nested, value, indent+2)
		default:
			nested.WriteString(yamlScalar(value) + "\n")
		}
		b.WriteString(strings.Repeat(" ", indent) + "- " + strings.TrimLeft(nested.String(), " "))
	}
}

func yamlScalar(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return value.String()
	}
	text, _ := value.(string)
	return yamlString(text)
}

var (
	// yamlPlain is text that means itself without quotes: no reader takes it for a number, a time or an end of line.
	yamlPlain = regexp.MustCompile(`^(--)?[A-Za-z][A-Za-z0-9._/+="<%,-]*(:[A-Za-z0-9._/+="<%,-]+)*$`)
	// yamlWords mean something else than themselves to readers of YAML 1.1 or 1.2.
	yamlWords = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
)

func yamlString(s string) string {
	if yamlPlain.MatchString(s) && !slices.Contains(yamlWords, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteRune(r) // a byte that is no text becomes the sign for that
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r >= 0x7f && r <= 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	b.WriteByte('"')
	return b.String()
}
