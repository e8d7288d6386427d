package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"karpenter/internal/model"
)

// What a terminal is told.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K\r\n"
	screenRest  = "\x1b[J"
)

// A look at a large cluster costs its controller something, and finding out which nodes could go costs this computer something: each
// is followed by a pause that is so many times as long.
const (
	lookShare  = 4
	judgeShare = 5
)

// topScreen shows nodes on a terminal until a key ends it.
type topScreen struct {
	*topping
	view    *topView
	in, out *os.File
	model   *model.Fleet
}

// topUpdate is what a look at the cluster came to.
type topUpdate struct {
	model *model.Fleet
	err   error
}

// run takes the terminal over and gives it back as it was, whatever happens.
func (s *topScreen) run(ctx context.Context) (err error) {
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return fmt.Errorf("taking the terminal over: %w", err)
	}
	restore := func() {
		_, _ = s.out.WriteString(screenLeave)
		_ = term.Restore(int(s.in.Fd()), before)
	}
	defer func() {
		restore()
		if r := recover(); r != nil {
			err = fmt.Errorf("drawing went wrong: %v\n%s", r, debug.Stack())
		}
	}()
	if _, err := s.out.WriteString(screenEnter); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	keys, updates, resized := make(chan []byte), make(chan topUpdate), make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	go s.readKeys(ctx, keys)
	go s.follow(ctx, updates)
	for {
		if err := s.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case key, ok := <-keys:
			if !ok || s.key(key) {
				return nil
			}
		case u := <-updates:
			s.view.message = ""
			if u.model != nil {
				s.model = u.model
			}
			if u.err != nil {
				s.view.message = "not current: " + oneLine(u.err)
			}
		}
	}
}

// draw writes one frame at once, so that nothing flickers.
func (s *topScreen) draw() error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width == 0 || height == 0 {
		width, height = 80, 24
	}
	if s.width > 0 {
		width = min(width, s.width)
	}
	lines := []string{"looking at the cluster …", s.view.message}
	if s.model != nil {
		lines = s.view.frame(s.model, width, height)
	}
	var b bytes.Buffer
	b.WriteString(screenHome)
	b.WriteString(strings.Join(lines[:min(len(lines), height)], lineEnd))
	b.WriteString("\x1b[K" + screenRest)
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	return nil
}

// readKeys sends what is typed, as it comes: a key that sends several characters sends them together.
func (s *topScreen) readKeys(ctx context.Context, keys chan<- []byte) {
	defer close(keys)
	for {
		buffer := make([]byte, 64)
		n, err := s.in.Read(buffer)
		if err != nil {
			return
		}
		select {
		case keys <- buffer[:n]:
		case <-ctx.Done():
			return
		}
	}
}

// follow looks at the cluster again and again. Which nodes could go takes longest, so that it is found out less often, and shown
// as it was last known in between.
func (s *topScreen) follow(ctx context.Context, updates chan<- topUpdate) {
	var known model.Verdicts
	var due time.Time
	for {
		begin := time.Now()
		u, later := s.see(ctx, known)
		wait := max(s.interval, lookShare*time.Since(begin))
		send := func(u topUpdate) bool {
			select {
			case updates <- u:
				return true
			case <-ctx.Done():
				return false
			}
		}
		if !send(u) {
			return
		}
		if later != nil && !time.Now().Before(due) {
			begin := time.Now()
			judged, err := guarded(func() (topUpdate, error) {
				known = later()
				fleet := *u.model
				fleet.Nodes = slices.Clone(fleet.Nodes)
				fleet.Apply(known)
				return topUpdate{model: &fleet}, nil
			})
			due = time.Now().Add(judgeShare * time.Since(begin))
			if err != nil {
				judged.err = err
			}
			if !send(judged) {
				return
			}
		}
		if s.source.snapshot != "" {
			return // a file does not change
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// see makes a model of this moment, with what is known of which nodes could go; later finds that out anew.
func (s *topScreen) see(ctx context.Context, known model.Verdicts) (u topUpdate, later func() model.Verdicts) {
	u, err := guarded(func() (u topUpdate, err error) {
		u.model, later, err = s.look(ctx, s.in)
		if later != nil {
			u.model.Apply(known)
		}
		return u, err
	})
	if err != nil {
		return topUpdate{err: err}, nil
	}
	return u, later
}

// guarded turns a panic into an error: the terminal must be given back first.
func guarded(do func() (topUpdate, error)) (u topUpdate, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("looking at the cluster went wrong: %v", r)
		}
	}()
	return do()
}
