package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/why"
	"karpenter/internal/model"
)

func openLedger(t *testing.T, dir string, fail func(error)) (*Ledger, *File) {
	t.Helper()
	l := newLedger(100)
	f, err := l.OpenFile(FileOptions{Dir: dir, Now: l.now, Fail: fail})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return l, f
}

func TestFilesAreReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "folder")
	l, f := openLedger(t, dir, nil)
	first := l.Add(Entry{
		Kind: Move, Reason: "Empty", Key: "m1", Summary: "a", Outcome: Open, Recorded: true, Input: "p-1", Saves: 0.25,
		Why: []why.Reason{why.New(why.Chosen, "because")}, Remove: []model.Node{{Node: "n", Pods: []string{"a/b"}}},
	})
	l.Add(Entry{Kind: Plan, Summary: "b"})
	l.Settle(first, Done, "deleted")
	f.Close()
	want := l.List(Query{})

	again, f := openLedger(t, dir, nil)
	got := again.List(Query{})
	lost := *want[1]
	lost.Recorded = false // recordings are in memory only
	if diff := cmp.Diff([]*Entry{want[0], &lost}, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if id := again.Add(Entry{Kind: Plan}); id != 3 {
		t.Errorf("the next entry has ID %d, want 3", id)
	}
	f.Close()
}

func TestBadLinesArePassedOver(t *testing.T) {
	dir := t.TempDir()
	l, f := openLedger(t, dir, nil)
	l.Add(Entry{Kind: Plan, Summary: "a"})
	f.Close()
	names, _ := fileNames(dir)
	file, err := os.OpenFile(filepath.Join(dir, names[0]), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("nonsense\n{}\n" + `{"id":2,"kind":"Pl`); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := os.WriteFile(filepath.Join(dir, "other.jsonl"), []byte(`{"id":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	again, _ := openLedger(t, dir, nil)
	if list := again.List(Query{}); len(list) != 1 || list[0].Summary != "a" {
		t.Errorf("read back %v", list)
	}
}

func TestTwoWritersDoNotCollide(t *testing.T) {
	dir := t.TempDir()
	for _, process := range []string{"p", "q"} {
		l := New(10, process, ticking())
		f := &File{dir: dir, now: func() time.Time { return epoch }, queue: make(chan *Entry, 10), done: make(chan struct{}), most: fileSize, start: filePrefix + process}
		l.file = f
		go f.run()
		l.Add(Entry{Kind: Plan, Summary: process + "1"})
		l.Add(Entry{Kind: Plan, Summary: process + "2"})
		f.Close()
	}
	l, _ := openLedger(t, dir, nil)
	var got []string
	for i, e := range l.List(Query{}) {
		if e.ID != uint64(4-i) {
			t.Errorf("ID %d", e.ID)
		}
		got = append(got, e.Summary)
	}
	if diff := cmp.Diff([]string{"q2", "p2", "q1", "p1"}, got); diff != "" {
		t.Errorf("in order of time (-want +got):\n%s", diff)
	}
}

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	_, f := openLedger(t, dir, nil)
	f.Close() // from here on the test is the writer
	f.out, f.most = nil, 1000
	for i := range 3 * (fileCount + 3) {
		f.write(&Entry{ID: uint64(i + 1), Kind: Plan, Summary: strings.Repeat("x", 300)})
	}
	f.close()
	names, err := fileNames(dir)
	if err != nil || len(names) != fileCount {
		t.Errorf("%d files, want %d: %v", len(names), fileCount, err)
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > 1000 {
			t.Errorf("%s has %d bytes, want at most 1000: %v", name, info.Size(), err)
		}
	}
}

func TestABadDiskStopsNothing(t *testing.T) {
	t.Run("no folder", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		l := newLedger(10)
		f, err := l.OpenFile(FileOptions{Dir: filepath.Join(file, "x"), Now: l.now})
		if err == nil {
			t.Error("a folder inside a file can be used")
		}
		if l.Add(Entry{Kind: Plan}) != 1 {
			t.Error("the ledger does not work on")
		}
		f.Close()
	})
	t.Run("goes away and comes back", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "ledger")
		var told []error
		_, f := openLedger(t, dir, nil)
		f.fail = func(err error) { told = append(told, err) }
		f.Close() // from here on the test is the writer
		f.out = nil
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		now := epoch
		f.now = func() time.Time { return now }
		e := &Entry{ID: 1, Kind: Plan}
		for range 5 {
			f.write(e)
		}
		if len(told) != 1 || !errors.Is(told[0], os.ErrNotExist) {
			t.Errorf("told %v", told)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		f.write(e)
		if len(told) != 1 {
			t.Errorf("the disk is tried again at once: %v", told)
		}
		now = now.Add(fileRetry)
		f.write(e)
		if len(told) != 2 || !strings.Contains(told[1].Error(), "6 lines that are missing") {
			t.Errorf("told %v", told)
		}
		if names, err := fileNames(dir); err != nil || len(names) != 1 {
			t.Errorf("files %v, %v", names, err)
		}
		f.close()
	})
}
