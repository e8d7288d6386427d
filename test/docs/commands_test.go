package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"karpenter/test/blocks"
)

var testName = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]*)\(`)

// tests are the names of all tests of the repository.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testName.FindAllStringSubmatch(read(t, path), -1) {
				found[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Every block of commands in docs/ and in the first page says which test runs it, or why none can.
func TestEveryCommandIsRunOrSaysWhyNot(t *testing.T) {
	known := tests(t)
	counted := 0
	for _, page := range pages(t) {
		short, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		if short != "README.md" && !strings.HasPrefix(short, "docs"+string(os.PathSeparator)) {
			continue
		}
		found, err := blocks.Read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range found {
			counted++
			switch {
			case b.Test == "" && b.Needs == "":
				t.Errorf("%s:%d: commands without a mark; write <!-- run by: TestName --> or <!-- needs: something --> before them:\n%s", short, b.Line, b.Text)
			case b.Test != "" && !known[b.Test]:
				t.Errorf("%s:%d: there is no test %s", short, b.Line, b.Test)
			}
		}
	}
	if counted < 20 {
		t.Errorf("only %d blocks were found", counted)
	}
}

func TestBlocksAreFound(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# T\n\n<!-- run by: TestA -->\n```bash\none\n\n    two\n```\n\n```yaml\n    kubectl x y\n```\n\ntext\n\n<!-- needs: luck -->\n\n    kubectl get x\n      more\n\n    $ aws y z\n\nend\n\n    output only\n\n```sh\nunmarked\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := blocks.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []blocks.Block{
		{Page: page, Line: 4, Test: "TestA", Text: "one\n\n    two\n"},
		{Page: page, Line: 18, Needs: "luck", Text: "kubectl get x\n  more\n\naws y z\n\n"},
		{Page: page, Line: 27, Text: "unmarked\n"},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}
