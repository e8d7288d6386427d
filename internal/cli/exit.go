package cli

import "errors"

// Exit codes of commands that say more than whether they failed.
const (
	// ExitFailed is the code of every error that has none of its own.
	ExitFailed = 1
	// ExitChanges says that there would be changes.
	ExitChanges = 2
	// ExitTooDear says that a change would cost more than is allowed.
	ExitTooDear = 3
)

// ExitError ends the program with a code of its own. One without an error is no failure, and nothing is printed for it.
type ExitError struct {
	Code int
	Err  error
}

// Error is what is wrong, or empty.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the code that the program ends with after a command has returned an error.
func ExitCode(err error) int {
	var e *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	return ExitFailed
}
