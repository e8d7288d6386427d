package main

import (
	"fmt"
	"math"
	"slices"
)

// The bars of the design.
const (
	barSpeed      = 500.0 // times upstream's pods per second, diverse 10,000
	barSpeedSmall = 100.0 // the same with 1,000 pods
	barGrowth     = 2.0   // time per pod at 20,000 pods against 1,000
	barMemory     = 50.0  // times less allocated than upstream, diverse 10,000
	barMillis     = 150.0 // plain 100,000
	barFew        = 15.0  // milliseconds for 12 pods
	barMean       = 0.92  // of upstream's cost, geometric mean
	barLoose      = 1.002 // of the cost without limits and minValues, where limits do not bind
	boundSlack    = 1e-6  // rounding of the independent bound
)

// barOver is how far above the bound a plan for 1,000 pods may be.
var barOver = map[string]float64{"plain": 0.01, "ratio": 0.01, "micro": 0.03, "wide": 0.025, "diverse": 0.04, "prefer": 0.04, "gpu": 0.03}

// overSpot and overHundred are the same for micro with spot only, and with 100 pods.
const (
	overSpot    = 0.04
	overHundred = 0.04
)

// overOf is the bar of a row, if it has one.
func overOf(r *row) (bar float64, ok bool) {
	switch {
	case slices.Contains(r.Args, "--max-cpu"):
		return 0, false
	case r.Name == "micro" && slices.Contains(r.Args, "spot"):
		return overSpot, true
	case r.Name == "micro" && r.Pods == 100:
		return overHundred, true
	}
	bar, ok = barOver[r.Name]
	return bar, ok && r.Pods >= 1000
}

// printBars says of each bar whether it holds, and whether all do. Bars that need upstream are left out without it.
func printBars(rows []*row, fleets []*fleetRow, spares []*spareRow) bool {
	ok := true
	say := func(holds bool, format string, args ...any) {
		word := "holds "
		if !holds {
			word, ok = "BROKEN", false
		}
		fmt.Printf("%s  %s\n", word, fmt.Sprintf(format, args...))
	}
	fmt.Println()
	find := func(name string, pods int) *row {
		for _, r := range rows {
			if r.Name == name && r.Pods == pods && len(r.Args) == 0 {
				return r
			}
		}
		return nil
	}
	if r := find("diverse", 10000); r != nil && r.Peer != nil {
		speed := r.Peer.SolveMillis / r.Ours.SolveMillis
		say(speed >= barSpeed, "diverse 10000: %.0f times upstream's speed, at least %.0f", speed, barSpeed)
		memory := r.Peer.AllocatedMiB / r.Ours.AllocatedMiB
		say(memory >= barMemory, "diverse 10000: %.0f times less memory allocated, at least %.0f", memory, barMemory)
	}
	for _, name := range []string{"diverse", "prefer", "plain"} {
		if r := find(name, 1000); r != nil && r.Peer != nil {
			speed := r.Peer.SolveMillis / r.Ours.SolveMillis
			say(speed >= barSpeedSmall, "%s 1000: %.0f times upstream's speed, at least %.0f", name, speed, barSpeedSmall)
		}
	}
	for _, r := range rows {
		if r.Pods == 12 {
			say(r.Ours.SolveMillis <= barFew, "%s 12 %v: %.1f ms to solve, at most %.0f", r.Name, r.Args, r.Ours.SolveMillis, barFew)
		}
	}
	if small, large := find("diverse", 1000), find("diverse", 20000); small != nil && large != nil {
		growth := small.Ours.podsPerSecond() / large.Ours.podsPerSecond()
		say(growth <= barGrowth, "diverse: time per pod at 20000 is %.2f times that at 1000, at most %.0f", growth, barGrowth)
	}
	if r := find("plain", 100000); r != nil {
		say(r.Ours.SolveMillis <= barMillis, "plain 100000: %.0f ms to solve (%.0f ms to load), at most %.0f", r.Ours.SolveMillis, r.Ours.LoadMillis, barMillis)
	}
	costBars(rows, say)
	for _, r := range rows {
		if free := find(r.Name, r.Pods); free != nil && slices.Equal(r.Args, looseLimits) {
			ratio := r.Ours.Total / free.Ours.Total
			say(ratio <= barLoose, "%s %d %v: %.4f of the cost without, at most %.3f", r.Name, r.Pods, r.Args, ratio, barLoose)
		}
	}
	fleetBars(fleets, say)
	for _, r := range spares {
		say(r.ratio() <= barSpare, "%s: a plan for %d spare pods takes %.2f times as long as one for pods that exist, at most %.1f", r.Name, sparePods, r.ratio(), barSpare)
	}
	return ok
}

func costBars(rows []*row, say func(bool, string, ...any)) {
	logs, n := 0.0, 0
	for _, r := range rows {
		if r.Ours.Placed < r.Ours.Pods {
			say(false, "%s %d %v: %d pods have no place", r.Name, r.Pods, r.Args, r.Ours.Pods-r.Ours.Placed)
		}
		if r.Peer != nil {
			ratio := r.Ours.Total / r.Peer.Total
			if ratio > 1+1e-9 {
				say(false, "%s %d %v: %.3f of upstream's cost, at most 1", r.Name, r.Pods, r.Args, ratio)
			}
			switch r.Name {
			case "plain", "micro", "ratio", "wide":
				logs += math.Log(ratio)
				n++
			}
		}
		if bar, ok := overOf(r); ok {
			over := r.Ours.Total/r.Ours.Bound - 1
			say(over <= bar, "%s %d %v: %.2f %% above the bound, at most %.1f", r.Name, r.Pods, r.Args, 100*over, 100*bar)
		}
		if r.Check > 0 && r.Ours.Bound < r.Check*(1-boundSlack)-1e-4 {
			say(false, "%s %d %v: bound %.4f is weaker than the independent %.4f", r.Name, r.Pods, r.Args, r.Ours.Bound, r.Check)
		}
	}
	if n > 0 {
		mean := math.Exp(logs / float64(n))
		say(mean <= barMean, "cost: %.3f of upstream's in the geometric mean, at most %.2f", mean, barMean)
	}
}
