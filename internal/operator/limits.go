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

// workers is how many objects a controller looks at side by side. They mostly wait for the cloud and the API server.
func workers(milliCPU int64) int {
	cores := float64(milliCPU) / 1000
	share := min(max((cores-1)/(coresMost-1), 0), 1)
	return workersLeast + int(share*(workersMost-workersLeast))
}

// memoryShare of the limit is what the garbage collector aims for; the rest is for what it cannot see.
const memoryShare = 0.9

// How much garbage, in percent of what is in use, may gather before it is collected. What a burst of work has spread its objects over
// stays in use after it, half empty, so that a process never becomes much smaller than it once was: at work, when nodes wait for
// the processor, that is a fixed amount, which a small process may double its memory for, and a share of a large one. While there is
// little to do it is less: Go's own choice spends memory to save time that there is plenty of.
const (
	garbageCalm                      = 15
	garbageLeast, garbageMost        = 30, 100
	garbageBytes              uint64 = 32 << 20
)

// garbageAtWork is the share for a process that has so many bytes in use.
func garbageAtWork(live uint64) int {
	return int(min(max(100*garbageBytes/max(live, 1), garbageLeast), garbageMost))
}

// limitMemory makes the garbage collector work harder near the limit of the container, instead of being killed there. Where
// allocations come from is noted only if somebody may ask for it.
func limitMemory(bytes int64, profiling bool) {
	if !profiling {
		runtime.MemProfileRate = 0
	}
	if !steered() {
		debug.SetGCPercent(garbageMost)
	}
	if bytes > 0 {
		debug.SetMemoryLimit(int64(float64(bytes) * memoryShare))
	}
}

// steered says that whoever runs the controller steers the garbage collector, with Go's own variable. Then it is left alone.
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
	// resting counts the looks since there was work.
	resting int
	// share is how much garbage may gather.
	share int
	// allocated is how many bytes had ever been allocated at the last look, given when memory was last given back.
	allocated, given uint64
}

// tidy looks, and gives memory back if the process has become calm.
func (t *tidier) tidy(context.Context) error {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	due := t.due(sample[0].Value.Uint64())
	share := garbageCalm
	if t.resting == 0 {
		share = garbageAtWork(sample[1].Value.Uint64())
	}
	if share != t.share {
		t.share = share
		debug.SetGCPercent(share)
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
