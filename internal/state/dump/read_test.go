package dump

import "testing"

func TestOddNodeNamesStayInTheSpec(t *testing.T) {
	for _, odd := range []string{`{"nodeName":"a\"b","x":1}`, `{"nodeName":"a"}`, `{"nodeName":1}`, `{"nodeName":"`, `{}`} {
		if node, rest := splitNode([]byte(odd)); node != "" || string(rest) != odd {
			t.Errorf("%s: %q %s", odd, node, rest)
		}
	}
}
