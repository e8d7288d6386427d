package aws

import "sync"

// maxAttempts bounds how many batches are remembered. To forget one costs a repeated refusal, nothing else.
const maxAttempts = 10_000

// attempts counts, by batch, the answers which said that a fleet got nothing. A process that does not know of them walks
// through their tokens again, and gets the same answers.
type attempts struct {
	mu    sync.Mutex
	count map[string]int
}

func (a *attempts) of(batch string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count[batch]
}

func (a *attempts) raise(batch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil || len(a.count) >= maxAttempts {
		a.count = map[string]int{}
	}
	a.count[batch]++
}
