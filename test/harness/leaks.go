package harness

import (
	"regexp"
	"runtime"
	"strings"
	"time"
)

// leakPatience is how long what was told to end may take for it.
const leakPatience = time.Minute

// ours are the packages whose goroutines must end with what has started them.
var ours = regexp.MustCompile(`karpenter/internal/(control|state|operator|ledger|web|engine|meter)\b`)

// leaked waits until no goroutine of the product runs any more, and returns those that go on running all the same. It is for the end of
// a package's tests, when every manager has been stopped.
func leaked() (stacks []string) {
	for deadline := time.Now().Add(leakPatience); ; time.Sleep(50 * time.Millisecond) {
		stacks = nil
		text := make([]byte, 16<<20)
		text = text[:runtime.Stack(text, true)]
		for i, stack := range strings.Split(string(text), "\n\n") {
			if i > 0 && ours.MatchString(stack) { // the first is this one
				stacks = append(stacks, stack)
			}
		}
		if len(stacks) == 0 || time.Now().After(deadline) {
			return stacks
		}
	}
}
