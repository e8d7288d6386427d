package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// maxLogBytes is when a log begins anew; the one before is kept beside it. Nobody reads further back on a laptop.
const maxLogBytes = 64 << 20

// logFile writes lines to a file in the form that container runtimes log in and kubelets read.
type logFile struct {
	name string

	mu      sync.Mutex
	file    *os.File
	written int
	partial []byte // the beginning of a line whose end has not come yet
}

// previousSuffix is added to the name of a log when the next one begins.
const previousSuffix = ".previous"

// openLog begins a log. The one of that name before is kept beside it.
func openLog(name string) (*logFile, error) {
	if err := os.Rename(name, name+previousSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keeping the controller's last log: %w", err)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the controller's log: %w", err)
	}
	return &logFile{name: name, file: file}, nil
}

// Write takes text of any length and writes the lines that are complete.
func (l *logFile) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stamp := time.Now().UTC().Format(time.RFC3339Nano)
	l.partial = append(l.partial, text...)
	var out bytes.Buffer
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			break
		}
		fmt.Fprintf(&out, "%s stdout F %s\n", stamp, line)
		l.partial = rest
	}
	if l.written += out.Len(); l.written > maxLogBytes {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	if _, err := l.file.Write(out.Bytes()); err != nil {
		return 0, fmt.Errorf("writing the controller's log: %w", err)
	}
	return len(text), nil
}

func (l *logFile) rotate() error {
	if err := os.Rename(l.name, l.name+previousSuffix); err != nil {
		return fmt.Errorf("rotating the controller's log: %w", err)
	}
	file, err := os.OpenFile(l.name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rotating the controller's log: %w", err)
	}
	_ = l.file.Close()
	l.file, l.written = file, 0
	return nil
}

// tail is the last lines of a log, as they were written.
func tail(name string, lines int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(data), "\n")
	var text strings.Builder
	for _, line := range all[max(0, len(all)-lines-1):] {
		_, line, _ = strings.Cut(line, " stdout F ")
		text.WriteString(line)
	}
	return text.String()
}

// Close ends the log.
func (l *logFile) Close() error { return l.file.Close() }
