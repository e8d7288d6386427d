package userdata

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var fuzzSeeds = []string{
	"", "#!/bin/bash\necho hi\n", "echo hi", "#cloud-config\na: b", userArchive, encodedArchive, nestedArchive, mixedArchive,
	userNodeConfig, userSettings, `{"apiVersion":"node.eks.aws/v1alpha1","kind":"NodeConfig"}`, "MIME-Version: 1.0\n", "--B\nContent-Type: a/b\n\n",
	"<powershell>", "Content-Type: multipart/mixed; boundary=\"\"\n\n--\n", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n--B\n--B--",
	"a.b.c = 1\n[a.b]\nd = 2", "[[a]]\n[a.b]\n[[a]]\nx = {y = [1, {z = 2}]}", "x = \"\"\"a\\\n  b\"\"\"\"\ny = 1979-05-27 07:32:00Z", "[a]\n[a]",
}

// FuzzRender gives any user data to every family: the result is an error of ours, or a document that the family reads.
func FuzzRender(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed, "key", "value")
	}
	f.Fuzz(func(t *testing.T, userData, key, value string) {
		o := withUserData(userData)
		o.Labels = map[string]string{key: value}
		for _, family := range append([]Family{Custom}, managed...) {
			doc, err := Render(family, o)
			if err != nil {
				var input *InputError
				var size *SizeError
				if !errors.As(err, &input) && !errors.As(err, &size) {
					t.Fatalf("%s: error is %v", family, err)
				}
				if input != nil && input.Line > 1+strings.Count(userData, "\n") {
					t.Errorf("%s: line %d of %q", family, input.Line, userData)
				}
				continue
			}
			if len(doc.Text) > MaxBytes {
				t.Errorf("%s: %d bytes", family, len(doc.Text))
			}
			if family == Custom || strings.HasPrefix(string(family), "Windows") && strings.Contains(userData, "\n&") {
				continue
			}
			want, got := wantBoot(o), decode(t, family, doc.Text)
			if family == Bottlerocket { // the user's own come on top
				for name := range got.Labels {
					if _, ours := want.Labels[name]; !ours {
						delete(got.Labels, name)
					}
				}
				got.Settings, want.Settings = nil, nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: instance (-want +got):\n%s\n%s", family, diff, doc.Text)
			}
		}
	})
}

// FuzzTOML reads any text, and what it reads must read the same after it is written.
func FuzzTOML(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := readTOML(text)
		if err != nil {
			return
		}
		once, err := file.write()
		if err != nil {
			t.Fatalf("%q is not written: %v", text, err)
		}
		again, err := readTOML(once)
		if err != nil {
			t.Fatalf("%q was written as %q, which is not TOML: %v", text, once, err)
		}
		if twice, err := again.write(); twice != once || err != nil {
			t.Errorf("%q was written as %q, then as %q (%v)", text, once, twice, err)
		}
	})
}

// FuzzArchive takes any text apart, and the parts must be the same after they are joined.
func FuzzArchive(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := readArchive(text, 1)
		if err != nil || len(parts) == 0 {
			return
		}
		again, err := readArchive(writeArchive(parts), 1)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(parts, again); diff != "" {
			t.Errorf("%q: parts (-first +second):\n%s", text, diff)
		}
	})
}
