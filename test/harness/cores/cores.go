// Package cores tells tests how much work a process has done, whatever else the computer does.
package cores

import (
	"syscall"
	"testing"
	"time"
)

// Used is how long this process has been on a core so far. On a computer that does nothing else, that is not less than a clock on the wall
// shows for work that waits for nothing.
func Used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
