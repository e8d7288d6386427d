package userdata

import (
	"errors"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlFile is spec.userData of an image that reads TOML. Comments and the order of keys are not kept.
type tomlFile struct {
	root  map[string]any
	lines map[string]int // by path
}

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

// readTOML reads spec.userData.
func readTOML(text string) (*tomlFile, error) {
	f := &tomlFile{root: map[string]any{}, lines: map[string]int{}}
	if err := toml.Unmarshal([]byte(text), &f.root); err != nil {
		wrong := &InputError{Field: fieldUserData, Wrong: "is not TOML: " + short(strings.TrimPrefix(err.Error(), "toml: ")), Cure: "write [table] or key = value on each line, texts in quotes, each key once"}
		if at, is := errors.AsType[*toml.DecodeError](err); is {
			wrong.Line, _ = at.Position()
		}
		return nil, wrong
	}
	f.findLines(text)
	return f, nil
}

// findLines notes where keys and tables are named first.
func (f *tomlFile) findLines(text string) {
	var p unstable.Parser
	p.Reset([]byte(text))
	var within []string
	for p.NextExpression() {
		switch at := p.Expression(); at.Kind {
		case unstable.Table, unstable.ArrayTable:
			within = f.noteKey(&p, nil, at.Key())
		case unstable.KeyValue:
			f.notePair(&p, within, at)
		}
	}
}

func (f *tomlFile) notePair(p *unstable.Parser, within []string, pair *unstable.Node) {
	path := f.noteKey(p, within, pair.Key())
	if value := pair.Value(); value.Kind == unstable.InlineTable {
		for each := value.Children(); each.Next(); {
			f.notePair(p, path, each.Node())
		}
	}
}

func (f *tomlFile) noteKey(p *unstable.Parser, within []string, key unstable.Iterator) []string {
	path := within[:len(within):len(within)]
	for key.Next() {
		path = append(path, string(key.Node().Data))
		if name := strings.Join(path, "\x00"); f.lines[name] == 0 {
			f.lines[name] = p.Shape(key.Node().Raw).Start.Line
		}
	}
	return path
}

// line is where a key was given first, 0 if Karpenter set it.
func (f *tomlFile) line(path ...string) int { return f.lines[strings.Join(path, "\x00")] }

// table returns the table at a path and makes it if there is none.
func (f *tomlFile) table(path ...string) (map[string]any, error) {
	at := f.root
	for i, key := range path {
		value, has := at[key]
		if !has {
			value = map[string]any{}
			at[key] = value
		}
		table, is := value.(map[string]any)
		if !is {
			name := strings.Join(path[:i+1], ".")
			return nil, &InputError{
				Field: fieldUserData, Line: f.line(path[:i+1]...),
				Wrong: name + " is " + string(tomlKindOf(value)) + " and not a table", Cure: "write [" + name + "] and its settings below",
			}
		}
		at = table
	}
	return at, nil
}

// write is the document with sorted keys.
func (f *tomlFile) write() (string, error) {
	text, err := toml.Marshal(f.root)
	return string(text), err
}

// tomlKindOf tells what a value is.
func tomlKindOf(value any) tomlKind {
	switch value.(type) {
	case string:
		return tomlIsString
	case bool:
		return tomlIsBool
	case int64:
		return tomlIsInteger
	case float64:
		return tomlIsFloat
	case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
		return tomlIsTime
	case map[string]any:
		return tomlIsTable
	}
	return tomlIsArray
}
