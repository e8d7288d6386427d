package web_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pageFiles are the texts of the page's files by name.
func pageFiles(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join("page", pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("page/%s: %v", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(data)
		}
	}
	return texts
}

// What eslint and the type checker do not see: rules of style for classes that nothing has, and exports that nothing imports.
func TestNothingOfThePageIsDead(t *testing.T) {
	code := pageFiles(t, "*.js", "*.html")
	all := ""
	for _, text := range code {
		all += text
	}
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`[\w-]+`).FindAllString(all, -1) {
		words[w] = true
	}
	rules, class := regexp.MustCompile(`([^{}]+)\{`), regexp.MustCompile(`[.#]([a-zA-Z][\w-]*)`)
	comments := regexp.MustCompile(`(?s)/\*.*?\*/`)
	for name, text := range pageFiles(t, "*.css") {
		for _, rule := range rules.FindAllStringSubmatch(comments.ReplaceAllString(text, ""), -1) {
			for _, c := range class.FindAllStringSubmatch(rule[1], -1) {
				if !words[c[1]] {
					t.Errorf("%s: nothing has %s", name, c[0])
				}
			}
		}
	}
	exports, imports := regexp.MustCompile(`(?m)^export (?:async )?(?:function|const|class) (\w+)`), regexp.MustCompile(`import \{([^}]*)\}`)
	imported := map[string]bool{}
	for _, list := range imports.FindAllStringSubmatch(all, -1) {
		for item := range strings.SplitSeq(list[1], ",") {
			imported[strings.Fields(item)[0]] = true
		}
	}
	for name, text := range code {
		for _, e := range exports.FindAllStringSubmatch(text, -1) {
			if !imported[e[1]] {
				t.Errorf("%s: nothing imports %s", name, e[1])
			}
		}
	}
}
