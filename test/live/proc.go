package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTicks is the unit of CPU times in /proc on Linux.
const clockTicks = 100

// loadAverage is how busy the instance is, over one, five and fifteen minutes.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// resident is the memory that a process occupies, and the most that it ever did, in MB.
func resident(pid int) (now, most float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading a process's memory: %w", err)
	}
	for row := range strings.Lines(string(text)) {
		fields := strings.Fields(row)
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "VmRSS:":
			now = kib * 1024 / 1e6
		case "VmHWM:":
			most = kib * 1024 / 1e6
		}
	}
	return now, most, nil
}

// cpuTime is how long a process has computed.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a process's CPU time: %w", err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, errors.New("reading a process's CPU time: too few fields")
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, fmt.Errorf("reading a process's CPU time: %w", err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		return 0, fmt.Errorf("reading a process's CPU time: %w", err)
	}
	return time.Duration(user+system) * time.Second / clockTicks, nil
}

// computed is how long each process of the cluster has computed; those that have just ended are left out.
func (s *site) computed() busy {
	out := busy{}
	for name, pid := range s.Pids() {
		if t, err := cpuTime(pid); err == nil {
			out[name] = t
		}
	}
	if t, err := cpuTime(os.Getpid()); err == nil {
		out["this program with the AWS simulator"] = t
	}
	return out
}

type busy map[string]time.Duration
