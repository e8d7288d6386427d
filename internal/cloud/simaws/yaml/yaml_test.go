package yaml

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"nested", "a:\n  b: 1\n  c: [x, 'y', \"z\\n\"]\nd: true\n", `{"a":{"b":1,"c":["x","y","z\n"]},"d":true}`},
		{"list at key indent", "a:\n- 1\n- b: 2\n  c: 3\n-\n  d: 4\nz: ~", `{"a":[1,{"b":2,"c":3},{"d":4}],"z":null}`},
		{"lists of lists", "- - a\n  - b\n- c", `[["a","b"],"c"]`},
		{"literal", "a: |\n  x\n    y\n\n  z\n\nb: |-\n  q\n", `{"a":"x\n  y\n\nz\n","b":"q"}`},
		{"folded", "a: >-\n  x\n  y\n\n  z\n", `{"a":"x y\nz"}`},
		{"comments", "# top\na: 1 # one\n# mid\nb: 'x # y'\n", `{"a":1,"b":"x # y"}`},
		{"flow over lines", "a: {b: 1,\n  c: [1,\n   2]}\nd: e", `{"a":{"b":1,"c":[1,2]},"d":"e"}`},
		{"json", "{\"a\": {\"b\": [1, 2.5, null, false]}, \"c\": \"x\\u0041\"}", `{"a":{"b":[1,2.5,null,false]},"c":"xA"}`},
		{"colons in values", "url: https://x:1/y\ntaint: a=b:NoSchedule", `{"taint":"a=b:NoSchedule","url":"https://x:1/y"}`},
		{"quoted keys", "\"a b\": 1\n'c': 2", `{"a b":1,"c":2}`},
		{"multi-line plain", "a: one\n  two\nb: 3", `{"a":"one two","b":3}`},
		{"strings that look odd", "a: 1.2.3\nb: 10m\nc: -\nd: 0x10\ne: 1e3", `{"a":"1.2.3","b":"10m","c":"-","d":16,"e":1000}`},
		{"empty values", "a:\nb:\n  c:\n", `{"a":null,"b":{"c":null}}`},
		{"two quotes", "a: \"x\"\nb: \"multi\n  line\"", `{"a":"x","b":"multi line"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := Parse(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(docs[0].Any())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTagsAndDocuments(t *testing.T) {
	docs, err := Parse("a: !Sub \"x-${y}\"\nb: !Join\n  - ''\n  - [!Ref p, q]\nc: !Sub |\n  text\nd: !GetAtt r.Arn\n---\nkind: second\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 2 || docs[1].Get("kind").String() != "second" {
		t.Fatalf("got %d documents", len(docs))
	}
	d := docs[0]
	for key, want := range map[string]string{"a": "Sub", "b": "Join", "c": "Sub", "d": "GetAtt"} {
		if got := d.Get(key).Tag; got != want {
			t.Errorf("%s has tag %q, want %q", key, got, want)
		}
	}
	if got := d.Get("b").Items[1].Items[0]; got.Tag != "Ref" || got.Text != "p" {
		t.Errorf("nested tag: got %q %q", got.Tag, got.Text)
	}
	if got := d.Get("c").Text; got != "text\n" {
		t.Errorf("tagged literal: got %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"a: 1\na: 2":           "twice",
		"a: 1\n\tb: 2":         "tab",
		"a: 1\n  b: 2":         "already complete",
		"a: [1, 2":             "not closed",
		"a: &x 1":              "anchors",
		"a: \"x":               "not closed",
		"a: {b: 1} c":          "already complete",
		"- a\nb: 1":            "does not belong",
		"a:\n    b: 1\n  c: 2": "indented more",
		"just text\nkey: v":    "already complete",
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want an error with %q", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a:\n- b: |\n   x\n", "{a: [1, {b: 'c'}]}", "- - >+2\n   x\n", "a: !T \"\\u0041\\\n\"", "? a", "--- x\n...\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		docs, err := Parse(s)
		if err != nil {
			return
		}
		for _, d := range docs {
			d.Any()
		}
	})
}
