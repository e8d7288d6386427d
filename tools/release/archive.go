package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is one file of an archive; one whose name ends in a slash is a folder.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// pack makes a tar of entries, sorted by name and all of one moment, owned by nobody in particular: nothing in it says where or when it
// was made.
func pack(when time.Time, entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) }) {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: when, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// squeeze packs bytes with gzip, whose header says neither name nor time.
func squeeze(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(plain); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

// archive is pack and squeeze.
func archive(when time.Time, entries []entry) ([]byte, error) {
	plain, err := pack(when, entries)
	if err != nil {
		return nil, err
	}
	return squeeze(plain)
}

// tree reads the files below a folder, with their names below prefix. Which bits a file has beside being there is up to whoever checked
// the source out, so that all are the same here.
func tree(folder, prefix string) ([]entry, error) {
	var found []entry
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		found = append(found, entry{path.Join(prefix, filepath.ToSlash(name)), 0o644, content})
		return nil
	})
	return found, err
}
