package operator

import (
	"os"
	"runtime/debug"
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

// garbage is how much of it, in percent of what is in use, may gather before it is collected. Go's own choice doubles the memory
// of a process whose memory hardly changes, to save it time that it has plenty of.
const garbage = 50

// limitMemory makes the garbage collector work harder near the limit of the container, instead of being killed there.
func limitMemory(bytes int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if bytes > 0 {
		debug.SetMemoryLimit(int64(float64(bytes) * memoryShare))
	}
}
