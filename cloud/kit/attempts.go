package kit

import (
	"slices"
	"sync"
	"time"

	"karpenter/cloud"
)

// maxAttempts bounds how many batches are remembered. To forget one costs a repeated refusal, nothing else.
const maxAttempts = 10_000

// Attempts counts, by batch, the answers that are done with: which said that a fleet got nothing, or whose instances have all been
// handed out. A process that does not know of them walks through their tokens again, and gets the same answers.
type Attempts struct {
	mu    sync.Mutex
	count map[string]int
	// made are the instances of the last answer.
	made map[string][]string
	// silent is when an answer first said nothing at all.
	silent map[string]time.Time
}

// Of is how many answers to a batch are done with.
func (a *Attempts) Of(batch string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count[batch]
}

// Raise notes that another answer to a batch is done with.
func (a *Attempts) Raise(batch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil || len(a.count) >= maxAttempts {
		a.count = map[string]int{}
	}
	a.count[batch]++
	delete(a.made, batch)
	delete(a.silent, batch)
}

// Unsaid notes an answer that said nothing, and returns when the first of them was.
func (a *Attempts) Unsaid(batch string, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent == nil || len(a.silent) >= maxAttempts {
		a.silent = map[string]time.Time{}
	}
	if _, known := a.silent[batch]; !known {
		a.silent[batch] = now
	}
	return a.silent[batch]
}

// Answered notes the instances of an answer.
func (a *Attempts) Answered(batch string, ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made == nil || len(a.made) >= maxAttempts {
		a.made = map[string][]string{}
	}
	a.made[batch] = ids
}

// Spent says whether everything that was made for a batch so far is known, and other claims have it all.
func (a *Attempts) Spent(batch cloud.Batch) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	made := a.made[batch.ID]
	return len(made) > 0 && !slices.ContainsFunc(made, func(id string) bool { return !batch.Taken[id] })
}
