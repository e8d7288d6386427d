package ledger

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// fileSize is when a file is followed by the next, and fileCount how many there are at most: 128 MiB altogether.
	fileSize  = 16 << 20
	fileCount = 8
	// fileQueue is how many entries may wait for a slow disk before some are left out.
	fileQueue = 4096
	// fileRetry is how long a disk that refused is left alone.
	fileRetry = 10 * time.Second
	// maxLine bounds an entry when files are read back.
	maxLine = 64 << 20

	filePrefix, fileSuffix = "decisions-", ".jsonl"
)

// File keeps entries in a folder: one JSON document a line, each entry again when it changes, so that the last line about it
// counts. Files are followed by new ones, and the oldest deleted, so that together they stay within 128 MiB. A disk that is full
// or read-only costs lines and nothing else.
type File struct {
	dir  string
	now  func() time.Time
	fail func(error)

	queue chan *Entry
	done  chan struct{}
	once  sync.Once

	out    *os.File
	size   int
	most   int // what size may be
	serial int
	start  string
	// lost counts entries that could not be written, until when nothing is tried.
	lost  int
	until time.Time
	told  string
}

// FileOptions says where entries go.
type FileOptions struct {
	// Dir is made if it is not there.
	Dir string
	Now func() time.Time
	// Fail is told what is wrong with the disk, once for each kind of trouble; nil tells nobody.
	Fail func(error)
}

// OpenFile reads what earlier processes have kept into the ledger, which must be empty, and has everything kept from now on. What cannot be read is
// passed over and returned as an error, and so is a folder that cannot be used; the ledger works on without.
func (l *Ledger) OpenFile(opt FileOptions) (*File, error) {
	f := &File{
		dir: opt.Dir, now: opt.Now, fail: opt.Fail, queue: make(chan *Entry, fileQueue), done: make(chan struct{}), most: fileSize,
		start: filePrefix + opt.Now().UTC().Format("20060102T150405Z"),
	}
	if l.process != "" {
		f.start += "-" + l.process
	}
	err := os.MkdirAll(opt.Dir, 0o755)
	entries, bad := readFiles(opt.Dir, l.size)
	l.mu.Lock()
	l.restore(entries)
	l.file = f
	l.mu.Unlock()
	go f.run()
	return f, errors.Join(err, bad)
}

// restore begins with entries of earlier processes; new ones count on from them. The lock is held.
func (l *Ledger) restore(list []*Entry) {
	slices.SortStableFunc(list, func(a, b *Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID), strings.Compare(a.Process, b.Process))
	})
	for i, e := range list {
		e.Recorded = false
		if i > 0 && e.ID <= list[i-1].ID {
			e.ID = list[i-1].ID + 1 // two processes have written at once
		}
		l.last = e.ID
		l.weight += e.weight()
	}
	l.entries = list
	l.shed()
}

// keep hands an entry to the writer, unless that is far behind.
func (f *File) keep(e *Entry) {
	if f == nil {
		return
	}
	select {
	case f.queue <- e:
	default:
	}
}

// Close writes what waits and ends the writer.
func (f *File) Close() {
	if f == nil {
		return
	}
	f.once.Do(func() {
		f.queue <- nil
		<-f.done
	})
}

func (f *File) run() {
	defer close(f.done)
	for e := range f.queue {
		if e == nil {
			break
		}
		f.write(e)
	}
	if f.out != nil {
		f.trouble(f.out.Close())
	}
}

func (f *File) write(e *Entry) {
	if f.now().Before(f.until) {
		f.lost++
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = f.append(append(line, '\n'))
	}
	if err != nil {
		f.lost++
		f.until = f.now().Add(fileRetry)
		f.close()
	}
	f.trouble(err)
}

// trouble tells what is wrong once, and that it is over.
func (f *File) trouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == f.told {
		return
	}
	f.told = text
	if err == nil {
		err = fmt.Errorf("writing to %s again after %d lines that are missing", f.dir, f.lost)
		f.lost = 0
	}
	if f.fail != nil {
		f.fail(err)
	}
}

func (f *File) close() {
	if f.out != nil {
		_ = f.out.Close() // what was wrong with it is known already
	}
	f.out = nil
}

func (f *File) append(line []byte) error {
	if f.out != nil && f.size+len(line) > f.most {
		f.close()
	}
	if f.out == nil {
		if err := f.next(); err != nil {
			return err
		}
	}
	n, err := f.out.Write(line)
	f.size += n
	if err != nil {
		return fmt.Errorf("writing decisions: %w", err)
	}
	return nil
}

// next begins a file, after deleting the oldest if there are too many.
func (f *File) next() error {
	names, err := fileNames(f.dir)
	if err != nil {
		return err
	}
	for len(names) >= fileCount {
		if err := os.Remove(filepath.Join(f.dir, names[0])); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("deleting old decisions: %w", err)
		}
		names = names[1:]
	}
	f.serial++
	f.out, err = os.OpenFile(filepath.Join(f.dir, fmt.Sprintf("%s-%04d%s", f.start, f.serial, fileSuffix)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		f.out = nil
		return fmt.Errorf("writing decisions: %w", err)
	}
	f.size = 0
	return nil
}

// fileNames lists the files of a folder, oldest first.
func fileNames(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading decisions: %w", err)
	}
	var names []string
	for _, e := range list {
		if !e.IsDir() && strings.HasPrefix(e.Name(), filePrefix) && strings.HasSuffix(e.Name(), fileSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// entryKey tells entries of all processes apart.
type entryKey struct {
	process string
	id      uint64
}

// readFiles reads at least the newest so many entries of a folder, each as its last line has it, and no more files than that takes.
func readFiles(dir string, want int) ([]*Entry, error) {
	names, err := fileNames(dir)
	if err != nil {
		return nil, err
	}
	var list []*Entry
	var errs []error
	known := map[entryKey]bool{}
	for _, name := range slices.Backward(names) {
		if len(list) >= want {
			break
		}
		found, err := readFile(filepath.Join(dir, name))
		errs = append(errs, err)
		for _, e := range found {
			if k := (entryKey{e.Process, e.ID}); !known[k] { // a newer file has what became of it
				known[k] = true
				list = append(list, e)
			}
		}
	}
	return list, errors.Join(errs...)
}

// readFile reads the entries of one file. A line that was cut off by a crash is passed over.
func readFile(path string) ([]*Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading decisions: %w", err)
	}
	defer file.Close()
	var list []*Entry
	at := map[entryKey]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		e := &Entry{}
		if json.Unmarshal(lines.Bytes(), e) != nil || e.ID == 0 {
			continue
		}
		k := entryKey{e.Process, e.ID}
		if i, ok := at[k]; ok {
			list[i] = e
			continue
		}
		at[k] = len(list)
		list = append(list, e)
	}
	if err := lines.Err(); err != nil {
		return list, fmt.Errorf("reading decisions of %s: %w", path, err)
	}
	return list, nil
}
