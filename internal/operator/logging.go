package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// isoMillis is how times are written: ISO 8601, UTC, milliseconds.
const isoMillis = "2006-01-02T15:04:05.000Z"

// newLogger makes the logger that the options describe (O53–O55). The returned function closes its files.
func newLogger(o *Options, commit string, now func() time.Time) (*slog.Logger, func(), error) {
	out, closeOut, err := openLogs(o.LogOutputPaths)
	if err != nil {
		return nil, nil, fmt.Errorf("LOG_OUTPUT_PATHS: %w", err)
	}
	complaints, closeComplaints, err := openLogs(o.LogErrorOutputPaths)
	if err != nil {
		closeOut()
		return nil, nil, fmt.Errorf("LOG_ERROR_OUTPUT_PATHS: %w", err)
	}
	handler := newLogHandler(o, &complaining{out: out, complaints: complaints})
	log := slog.New(newSampler(handler, now)).With("logger", "controller", "commit", commit)
	return log, func() { closeOut(); closeComplaints() }, nil
}

// newLogHandler writes lines with the keys that people and their tools know.
func newLogHandler(o *Options, out io.Writer) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: rename}
	switch o.LogLevel {
	case "debug":
		options.Level, options.AddSource = slog.LevelDebug, true
	case "error":
		options.Level = slog.LevelError
	}
	if o.LogEncoding == "console" {
		return slog.NewTextHandler(out, options)
	}
	return slog.NewJSONHandler(out, options)
}

func rename(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			a.Value = slog.StringValue(a.Value.Time().UTC().Format(isoMillis))
		}
	case slog.MessageKey:
		a.Key = "message"
	case slog.SourceKey:
		if source, ok := a.Value.Any().(*slog.Source); ok {
			return slog.String("caller", fmt.Sprintf("%s:%d", filepath.Base(source.File), source.Line))
		}
	case "err": // what libraries call it
		a.Key = "error"
	}
	return a
}

// openLogs opens what a list of paths names.
func openLogs(paths []string) (io.Writer, func(), error) {
	var writers []io.Writer
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	for _, path := range paths {
		switch path {
		case "stdout":
			writers = append(writers, os.Stdout)
		case "stderr":
			writers = append(writers, os.Stderr)
		default:
			f, err := os.OpenFile(strings.TrimPrefix(path, "file://"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				closeAll()
				return nil, nil, fmt.Errorf("opening a log file: %w", err)
			}
			writers, files = append(writers, f), append(files, f)
		}
	}
	return io.MultiWriter(writers...), closeAll, nil
}

// complaining says where errors belong that a line could not be written.
type complaining struct{ out, complaints io.Writer }

func (w *complaining) Write(line []byte) (int, error) {
	n, err := w.out.Write(line)
	if err != nil {
		fmt.Fprintf(w.complaints, "log line not written: %v\n", err)
		return n, errors.Join(errors.New("writing a log line"), err)
	}
	return n, nil
}

// quiet is for libraries: what they report of their own doings is for debugging, except for errors.
type quiet struct{ slog.Handler }

// Loud is the handler for what is not a library's own doing, with the attributes that the library has given.
func (q quiet) Loud() slog.Handler { return q.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, hushed(level))
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = hushed(r.Level)
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

func hushed(level slog.Level) slog.Level {
	if level < slog.LevelError {
		return min(level, slog.LevelDebug)
	}
	return level
}

const (
	// sampleFirst lines of one message are written each second, and of the rest every sampleThen-th (O53).
	sampleFirst, sampleThen = 100, 100
	// maxSampled bounds how many messages are counted apart; messages are constants, so this is never met.
	maxSampled = 4096
)

// sampler leaves out lines of a flood.
type sampler struct {
	slog.Handler
	counts *sampleCounts
}

type sampleCounts struct {
	now func() time.Time

	mu     sync.Mutex
	second int64
	seen   map[string]int
}

func newSampler(h slog.Handler, now func() time.Time) slog.Handler {
	return &sampler{Handler: h, counts: &sampleCounts{now: now, seen: map[string]int{}}}
}

// Handle implements slog.Handler.
func (s *sampler) Handle(ctx context.Context, r slog.Record) error {
	if !s.counts.pass(r.Level.String() + r.Message) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *sampler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sampler{Handler: s.Handler.WithAttrs(attrs), counts: s.counts}
}

// WithGroup implements slog.Handler.
func (s *sampler) WithGroup(name string) slog.Handler {
	return &sampler{Handler: s.Handler.WithGroup(name), counts: s.counts}
}

func (c *sampleCounts) pass(message string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if second := c.now().Unix(); second != c.second || len(c.seen) > maxSampled {
		c.second = second
		clear(c.seen)
	}
	c.seen[message]++
	n := c.seen[message]
	return n <= sampleFirst || (n-sampleFirst)%sampleThen == 0
}
