package operator

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Workers grow with the CPU that the container requests (O58), from the first number at one core to the second at sixty.
const (
	workersLeast, workersMost = 10, 1000
	coresMost                 = 60
)

// workers is how many objects a controller looks at side by side. They mostly wait for AWS and the API server.
func workers(milliCPU int64) int {
	cores := float64(milliCPU) / 1000
	share := min(max((cores-1)/(coresMost-1), 0), 1)
	return workersLeast + int(share*(workersMost-workersLeast))
}

// memoryShare of the limit is what the garbage collector aims for; the rest is for what it cannot see.
const memoryShare = 0.9

// garbage is how much of it, in percent of what is in use, may gather before it is collected: at work, when nodes wait for the
// processor, and while there is little to do. Go's own choice for both doubles the memory of a process that hardly changes it, to
// save it time that it has plenty of; and what a burst has spread objects over stays in use after it.
const garbage, garbageCalm = 100, 15

// limitMemory makes the garbage collector work harder near the limit of the container, instead of being killed there. Where
// allocations come from is noted only if somebody may ask for it.
func limitMemory(bytes int64, profiling bool) {
	if !profiling {
		runtime.MemProfileRate = 0
	}
	if !steered() {
		debug.SetGCPercent(garbage)
	}
	if bytes > 0 {
		debug.SetMemoryLimit(int64(float64(bytes) * memoryShare))
	}
}

// steered says whether somebody else has decided how hard the garbage collector works.
func steered() bool { return os.Getenv("GOGC") != "" }

const (
	// tidyEvery is how often is looked whether there is work, and calm how much a process that has little to do allocates meanwhile.
	tidyEvery = 2 * time.Second
	calm      = 2 << 20
	// calmLooks is after how many looks without work memory is given back, and littered how much must have been allocated since the
	// last time for that to be worth a collection, which takes a tenth of a second.
	calmLooks = 3
	littered  = 48 << 20
)

// tidier gives memory back to the system that a burst of work has left behind. Left alone, the garbage collector holds on to what it
// may need again soon, which for a controller that waits for the next pod is hours away.
type tidier struct {
	steered bool
	// resting counts the looks since there was work.
	resting int
	// allocated is how many bytes had ever been allocated at the last look, given when memory was last given back.
	allocated, given uint64
}

// tidy looks, and gives memory back if the process has become calm.
func (t *tidier) tidy(context.Context) error {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	was := t.resting
	due := t.due(sample[0].Value.Uint64())
	switch {
	case t.steered:
	case was == 0 && t.resting > 0:
		debug.SetGCPercent(garbageCalm)
	case was > 0 && t.resting == 0:
		debug.SetGCPercent(garbage)
	}
	if due {
		debug.FreeOSMemory()
	}
	return nil
}

// due says whether a process that has allocated so many bytes since its start should give memory back now.
func (t *tidier) due(allocated uint64) bool {
	t.resting++
	if allocated-t.allocated > calm {
		t.resting = 0
	}
	t.allocated = allocated
	if t.resting < calmLooks || allocated-t.given < littered {
		return false
	}
	t.given = allocated
	return true
}
