package userdata

import (
	"maps"
	"slices"
	"strings"
)

// tomlTable is a table of a TOML document. Comments and the order of keys are not kept.
type tomlTable struct {
	entries map[string]tomlEntry
	origin  tomlOrigin
}

// tomlEntry is a key's value and the line on which it was given, 0 if Karpenter set it.
// Values are string, bool, tomlLiteral, []any of values, *tomlTable and *tomlTables.
type tomlEntry struct {
	value any
	line  int
}

// tomlLiteral is a number or a time as it was written: nothing here counts with them.
type tomlLiteral struct {
	text string
	kind tomlKind
}

// tomlTables is an array of tables, which further [[headers]] extend.
type tomlTables struct {
	list []*tomlTable
}

// tomlOrigin is how a table came to be, which decides what may still be added to it.
type tomlOrigin int

const (
	tomlImplicit tomlOrigin = iota // named on the way to another one: a header of its own may follow
	tomlHeader                     // [name]
	tomlDotted                     // name.key = value
	tomlInline                     // { key = value }: complete
)

// tomlKind names the kinds of values in errors.
type tomlKind string

const (
	tomlIsString  tomlKind = "a string"
	tomlIsInteger tomlKind = "an integer"
	tomlIsFloat   tomlKind = "a float"
	tomlIsBool    tomlKind = "a boolean"
	tomlIsTime    tomlKind = "a time"
	tomlIsArray   tomlKind = "an array"
	tomlIsTable   tomlKind = "a table"
)

func newTOMLTable(origin tomlOrigin) *tomlTable {
	return &tomlTable{entries: map[string]tomlEntry{}, origin: origin}
}

// keys are sorted.
func (t *tomlTable) keys() []string {
	return slices.Sorted(maps.Keys(t.entries))
}

// set gives a key a value of ours.
func (t *tomlTable) set(key string, value any) {
	t.entries[key] = tomlEntry{value: value}
}

// tomlKindOf tells what a value is.
func tomlKindOf(value any) tomlKind {
	switch value := value.(type) {
	case string:
		return tomlIsString
	case bool:
		return tomlIsBool
	case tomlLiteral:
		return value.kind
	case *tomlTable:
		return tomlIsTable
	}
	return tomlIsArray
}

// subtable returns the table at key and makes it if there is none.
func (t *tomlTable) subtable(path, key string) (*tomlTable, error) {
	entry, has := t.entries[key]
	if !has {
		made := newTOMLTable(tomlHeader)
		t.set(key, made)
		return made, nil
	}
	table, is := entry.value.(*tomlTable)
	if !is {
		return nil, &InputError{
			Field: fieldUserData, Line: entry.line,
			Wrong: path + key + " is " + string(tomlKindOf(entry.value)) + " and not a table", Cure: "write [" + path + key + "] and its settings below",
		}
	}
	return table, nil
}

// writeTOML writes a document with sorted keys: in each table first its values, then its tables.
func writeTOML(root *tomlTable) string {
	var b strings.Builder
	writeTOMLTable(&b, nil, root)
	return b.String()
}

func writeTOMLTable(b *strings.Builder, path []string, table *tomlTable) {
	var values, tables []string
	for _, key := range table.keys() {
		if _, is := table.entries[key].value.(*tomlTable); is {
			tables = append(tables, key)
		} else {
			values = append(values, key)
		}
	}
	// A header is only left out where the headers of tables within say the same.
	if len(path) > 0 && (len(values) > 0 || len(tables) == 0) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[" + strings.Join(path, ".") + "]\n")
	}
	for _, key := range values {
		b.WriteString(tomlKey(key) + " = ")
		writeTOMLValue(b, table.entries[key].value)
		b.WriteByte('\n')
	}
	for _, key := range tables {
		nested, _ := table.entries[key].value.(*tomlTable)
		writeTOMLTable(b, append(slices.Clone(path), tomlKey(key)), nested)
	}
}

// writeTOMLValue writes a value on one line; tables within arrays are inline.
func writeTOMLValue(b *strings.Builder, value any) {
	switch value := value.(type) {
	case string:
		b.WriteString(tomlString(value))
	case bool:
		if value {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case tomlLiteral:
		b.WriteString(value.text)
	case []any:
		writeTOMLArray(b, value)
	case *tomlTables:
		list := make([]any, len(value.list))
		for i, table := range value.list {
			list[i] = table
		}
		writeTOMLArray(b, list)
	case *tomlTable:
		b.WriteByte('{')
		for i, key := range value.keys() {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(tomlKey(key) + " = ")
			writeTOMLValue(b, value.entries[key].value)
		}
		b.WriteByte('}')
	}
}

func writeTOMLArray(b *strings.Builder, list []any) {
	b.WriteByte('[')
	for i, item := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		writeTOMLValue(b, item)
	}
	b.WriteByte(']')
}
