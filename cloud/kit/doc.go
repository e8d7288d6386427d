// Package kit has what a provider of any cloud needs between its API and the interface of package cloud: which offerings are out of
// stock, how fast calls may go out, many questions in one call, what a repeated launch has been answered, and which offerings one
// launch asks for. Nothing in it knows which cloud it is.
package kit

import "karpenter/internal/wait"

// Clock is the time that a provider lives in.
type Clock = wait.Clock
