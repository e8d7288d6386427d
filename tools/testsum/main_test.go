package main

import (
	"strings"
	"testing"
)

func TestSummarise(t *testing.T) {
	cases := []struct {
		name, in string
		ok       bool
		want     []string
	}{
		{
			"all pass", `{"Action":"pass","Package":"p","Test":"A"}
{"Action":"skip","Package":"p","Test":"B"}
{"Action":"pass","Package":"p","Elapsed":1}`, true, []string{"ok   p", "skipped: p B", "\n1 passed, 0 failed, 1 skipped\n"},
		},
		{
			"a failure shows its output only", `{"Action":"output","Package":"p","Test":"A","Output":"boom\n"}
{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:12: it is late\n"}
{"Action":"output","Package":"p","Test":"B","Output":"quiet\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"B"}
{"Action":"fail","Package":"p"}`, false, []string{"FAIL p A\nboom\n", "failed: p A\n    a_test.go:12: it is late\n1 passed, 1 failed, 0 skipped"},
		},
		{
			"a package that does not build", `{"ImportPath":"p [p.test]","Action":"build-output","Output":"x.go:1: bad\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"fail","Package":"p"}`, false, []string{"x.go:1: bad", "0 passed, 1 failed"},
		},
		{"nothing ran", ``, false, []string{"0 passed, 0 failed"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if ok := summarise(strings.NewReader(c.in), &out); ok != c.ok {
				t.Errorf("ok = %v, want %v", ok, c.ok)
			}
			for _, want := range c.want {
				if !strings.Contains("\n"+out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "quiet") {
				t.Error("shows the output of a test that passed")
			}
		})
	}
}
