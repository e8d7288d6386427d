// Package docs checks that what the documentation says of the repository is so: links lead somewhere, every page
// can be found, and the lists that must be complete are.
package docs

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
)

// pages are the Markdown files of the repository, without what is built or fetched.
func pages(t *testing.T) []string {
	t.Helper()
	skip := []string{".git", "bin", "artifacts", "dist", "node_modules"}
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skip, entry.Name()):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".md":
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no page found")
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// links are the targets of a page's links, without those that are shown as code.
func links(text string) []string {
	text = span.ReplaceAllString(fence.ReplaceAllString(text, ""), "code")
	var targets []string
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		targets = append(targets, match[1])
	}
	return targets
}

// anchors are the fragments that a page's headings can be linked by, spelled as GitHub does.
func anchors(text string) []string {
	var found []string
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		var slug strings.Builder
		for _, r := range strings.ToLower(strings.ReplaceAll(match[1], "`", "")) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				slug.WriteRune(r)
			case r == ' ':
				slug.WriteByte('-')
			}
		}
		found = append(found, slug.String())
	}
	return found
}

// resolve splits a link into the file that it leads to and the fragment; local is false for other places of the web.
func resolve(page, target string) (file, fragment string, local bool, err error) {
	parsed, err := url.Parse(target)
	if err != nil || parsed.IsAbs() || parsed.Host != "" {
		return "", "", false, err
	}
	if strings.HasPrefix(parsed.Path, "/") {
		return "", "", true, errors.New("a link inside the repository must be relative")
	}
	if parsed.Path == "" {
		return page, parsed.Fragment, true, nil
	}
	return filepath.Join(filepath.Dir(page), filepath.FromSlash(parsed.Path)), parsed.Fragment, true, nil
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, target := range links(read(t, page)) {
			file, fragment, local, err := resolve(page, target)
			if err != nil {
				t.Errorf("%s: link %s: %v", page, target, err)
			}
			if err != nil || !local {
				continue
			}
			info, err := os.Stat(file)
			switch {
			case err != nil:
				t.Errorf("%s: link %s leads nowhere: %v", page, target, err)
			case fragment == "":
			case info.IsDir() || filepath.Ext(file) != ".md":
				t.Errorf("%s: link %s has a fragment, but only a page has headings", page, target)
			default:
				if known := anchors(read(t, file)); !slices.Contains(known, fragment) {
					t.Errorf("%s: link %s: no such heading; there are %q", page, target, known)
				}
			}
		}
	}
}

func TestEveryPageCanBeFound(t *testing.T) {
	start := filepath.Join(root, "docs", "README.md")
	seen := map[string]bool{start: true}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, target := range links(read(t, queue[0])) {
			file, _, local, err := resolve(queue[0], target)
			if err != nil || !local || seen[file] || filepath.Ext(file) != ".md" {
				continue
			}
			if _, err := os.Stat(file); err == nil { // a dead link is the other test's finding
				seen[file] = true
				queue = append(queue, file)
			}
		}
	}
	docs := filepath.Join(root, "docs") + string(filepath.Separator)
	for _, page := range pages(t) {
		if strings.HasPrefix(page, docs) && !seen[page] {
			t.Errorf("%s cannot be reached by links from %s", page, start)
		}
	}
}

func TestLinkReading(t *testing.T) {
	text := "# One `two` three!\n[a](b.md#c) ![i](i.svg) `[not](this)`\n```\n[nor](that)\n# not this\n```\n## Two-Three, four\n"
	if got, want := links(text), []string{"b.md#c", "i.svg"}; !slices.Equal(got, want) {
		t.Errorf("links: got %q, want %q", got, want)
	}
	if got, want := anchors(text), []string{"one-two-three", "two-three-four"}; !slices.Equal(got, want) {
		t.Errorf("anchors: got %q, want %q", got, want)
	}
}
