package userdata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written says what was read, in one form.
func Test1_7_Bottlerocket_WritesWhatItReads(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		" \t# only a remark":                   "",
		"b = 2\r\na = 1":                       "a = 1\nb = 2\n",
		`"a b" = 'x'` + "\n'' = 1":             "'' = 1\n'a b' = 'x'\n",
		`a = "\b\t\n\f\r\"\\\u00e9\U0001F600"`: `a = "\b\t\n\f\r\"\\é😀"` + "\n",
		`a = "it's"`:                           `a = "it's"` + "\n",
		"a = '\\d'":                            "a = '\\d'\n",
		"a = \"\"\"x \\ \n\n  y\"\"\"":         "a = 'x y'\n",
		"a = [+1, -0, 1_000, 0xDEAD_beef, 0o17, 0b1_0]":    "a = [1, 0, 1000, 3735928559, 15, 2]\n",
		"a = [1.5, inf, true]":                             "a = [1.5, inf, true]\n",
		"a = [1979-05-27T07:32:00Z, 1979-05-27, 07:32:00]": "a = [1979-05-27T07:32:00Z, 1979-05-27, 07:32:00]\n",
		"a = [ # remark\n 1, # one\n\n 2 # two\n , ]":      "a = [1, 2]\n",
		"a = [[], [[1], ['x']], {b = 1}]":                  "a = [[], [[1], ['x']], {b = 1}]\n",
		"a = {}":                                           "[a]\n",
		"a.b.c = 1\na.b.d = 2\na . \"e\" = 3":              "[a]\ne = 3\n\n[a.b]\nc = 1\nd = 2\n",
		"[ a . 'b c' ]\nx = 1":                             "[a]\n[a.'b c']\nx = 1\n",
	} {
		file, err := readTOML(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := file.write()
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// What TOML does not allow is refused on the right line.
func Test1_7_Bottlerocket_RefusesBrokenTOML(t *testing.T) {
	for text, line := range map[string]int{
		"a":                              1,
		"= 1":                            1,
		"a =":                            1,
		"a = \nb = 1":                    1,
		"\n\na b = 1":                    3,
		"a. = 1":                         1,
		"a..b = 1":                       1,
		"\"\"\"a\"\"\" = 1":              1,
		"a = 1\n\"a\" = 2":               2,
		"a = 1\na.b = 2":                 2,
		"a.b = 1\na = 2":                 2,
		"a.b = 1\n[a]":                   2,
		"[a]\nb.c = 1\n[a.b]":            3,
		"[a.b]\n[a]\nb.c = 1":            3,
		"a = {b = 1}\n[a.c]":             2,
		"a = {b.c = 1}\n[a.b.d]":         2,
		"a = {b = 1}\na.c = 2":           2,
		"a = 1\n[a.b]":                   2,
		"a = [1]\n[[a]]":                 2,
		"[a]\n[[a]]":                     2,
		"[[a]]\n[a]":                     2,
		"[a\n]":                          1,
		"[]":                             1,
		"[[a]":                           1,
		"[a]]":                           1,
		"[a] b = 1":                      1,
		"a = [1 2]":                      1,
		"a = [1,\n2\n":                   2,
		"a = [,]":                        1,
		"a = {b = 1 c = 2}":              1,
		"a = {b = 1, b = 2}":             1,
		"a = {":                          1,
		"a = 'b":                         1,
		"a = 'b\n'":                      1,
		"a = \"b\n\"":                    1,
		"a = \"\"\"\n\n":                 2,
		"a = \"\\":                       1,
		"a = \"\\q\"":                    1,
		"a = \"\\u12\"":                  1,
		"a = \"\\ud800\"":                1,
		"a = \"\\UFFFFFFFF\"":            1,
		"a = \"x\\\ny\"":                 1,
		"a = '\x00'":                     1,
		"a = 1 # \x01":                   1,
		"a = 1\rb = 2":                   1,
		"a = 01":                         1,
		"a = 1__0":                       1,
		"a = _1":                         1,
		"a = 1.":                         1,
		"a = .5":                         1,
		"a = 0xG":                        1,
		"a = 0x8000000000000000":         1,
		"a = +0x1":                       1,
		"a = True":                       1,
		"a = 1979-5-27":                  1,
		"a = 1979-05-27T":                1,
		"a = \xff":                       1,
		"a = {b = {c = {d = [{e = }]}}}": 1,
	} {
		_, err := readTOML(text)
		if err == nil {
			t.Errorf("%q is read", text)
			continue
		}
		t.Run(text, func(t *testing.T) { wantInputError(t, err, "spec.userData", line) })
	}
}
