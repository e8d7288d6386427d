package life

import (
	"slices"
	"strings"
	"time"
)

// What a reboot may take (N7).
const (
	// rebootRetry is for how long the cloud is asked to reboot an instance before that counts as failed, and rebootAskAgain how often.
	rebootRetry    = 5 * time.Minute
	rebootAskAgain = 5 * time.Second
	// rebootHeard is how long the kubelet of an instance that may have been rebooted already has to say so, before the cloud is asked again.
	rebootHeard = 2 * time.Minute
	// rebootWindow is how long a node may take to come back, and rebootPoll how often it is looked at.
	rebootWindow = 20 * time.Minute
	rebootPoll   = 15 * time.Second
	// rebootDrain is how long pods may take to leave where no grace period bounds that. Until then no node is launched for them, because the
	// room of this one comes back: pods whose PodDisruptionBudget waits for those that were evicted before them would wait for ever.
	rebootDrain = 20 * time.Minute
	// rebootDay is the time in which maxReboots are tried before a node is replaced instead.
	rebootDay  = 24 * time.Hour
	maxReboots = 2
)

// Rebooting is what is known of a claim whose instance is to be rebooted.
type Rebooting struct {
	// Requested is when that was decided, and Grace how long the drain may take; nil if nothing bounds it.
	Requested time.Time
	Grace     *time.Duration
	// Tainted is since when new pods are kept off the node; zero if they are not.
	Tainted time.Time
	// Waiting is how many pods are still to be evicted.
	Waiting int
	// PreBoot is the node's boot id before the reboot, recorded with Asked, the time at which the cloud was first asked; empty and zero
	// before that.
	PreBoot string
	Asked   time.Time
	// Day is how many reboots of the instance are on record within a day, with the one that was asked for.
	Day int
	// Issued is when the cloud has accepted it; zero before that.
	Issued time.Time
	// Boot is the boot id that the node reports, and Ready whether it is.
	Boot  string
	Ready bool
	// Gone says that there is no node any more.
	Gone bool
	// Watching is since when the caller has been at work. What nobody worked on before that has not had its time yet: only a bound on the
	// drain that somebody has set is not put off.
	Watching time.Time
}

// RebootDo is what to do next about a reboot.
type RebootDo string

// The steps, in order. RebootHold means that nothing can be done until something changes or RebootStep.After has passed.
const (
	RebootTaint   RebootDo = "Taint"
	RebootDrain   RebootDo = "Drain"
	RebootRecord  RebootDo = "Record"
	RebootAsk     RebootDo = "Ask"
	RebootIssue   RebootDo = "Issue"
	RebootHold    RebootDo = "Hold"
	RebootSucceed RebootDo = "Succeed"
	RebootFail    RebootDo = "Fail"
)

// Results of reboots, as metrics have them.
const (
	RebootSucceeded       = "succeeded"
	RebootProviderError   = "provider_error"
	RebootRecoveryTimeout = "recovery_timeout"
	RebootDrainTimeout    = "drain_timeout"
	RebootInvalidRequest  = "invalid_request"
)

// RebootStep is what to do next.
type RebootStep struct {
	Do RebootDo
	// After is when to ask again if nothing changes before.
	After time.Duration
	// Result and Why say, with Succeed and Fail, what came of it.
	Result, Why string
}

// Next is the next step of a reboot. Each is written down before the one after it, so that whoever takes over goes on: an instance that has
// rebooted since its boot id was recorded is not rebooted again.
func (r Rebooting) Next(now time.Time) RebootStep {
	switch {
	case r.Gone:
		return RebootStep{Do: RebootFail, Result: RebootInvalidRequest, Why: "its node is gone"}
	case !r.Issued.IsZero():
		return r.recover(now)
	case !r.Asked.IsZero():
		return r.ask(now)
	case r.Tainted.IsZero():
		return RebootStep{Do: RebootTaint}
	}
	return r.drain(now)
}

// ask says whether the cloud is to be asked, now that this is on record. Whoever takes over cannot know whether the one before has asked: the
// instance may be up again and not have been heard of. To ask once more then is another reboot, and is counted as one.
func (r Rebooting) ask(now time.Time) RebootStep {
	heard := r.Watching.Add(rebootHeard)
	switch {
	case r.PreBoot != r.Boot && r.Boot != "":
		return RebootStep{Do: RebootIssue}
	case !r.Asked.Before(r.Watching.Truncate(time.Second)): // it is on record to the second
		if !now.Before(r.Asked.Add(rebootRetry)) {
			return RebootStep{Do: RebootFail, Result: RebootProviderError, Why: "the cloud did not accept the reboot within " + rebootRetry.String()}
		}
		return RebootStep{Do: RebootAsk, After: rebootAskAgain}
	case now.Before(heard):
		return RebootStep{Do: RebootHold, After: min(rebootPoll, heard.Sub(now))}
	case r.Day >= maxReboots:
		return RebootStep{Do: RebootFail, Result: RebootProviderError, Why: "it is not known whether the cloud was asked for the reboot, and there was another one within " + rebootDay.String()}
	}
	return RebootStep{Do: RebootRecord}
}

// drain says whether the pods have had their time. If a grace period has bounded it, those that are left ride along. Otherwise nothing may
// end a pod that cannot be evicted, neither a reboot: the node is replaced, which launches a node for its pods and goes on evicting them.
func (r Rebooting) drain(now time.Time) RebootStep {
	end := later(r.Requested, r.Watching).Add(rebootDrain)
	if r.Grace != nil {
		end = r.Requested.Add(*r.Grace)
		if *r.Grace <= 0 || !now.Before(end) {
			return RebootStep{Do: RebootRecord}
		}
	}
	least := r.Tainted.Add(minDrain) // the scheduler may not have seen the taint yet
	switch {
	case r.Waiting == 0 && !now.Before(least):
		return RebootStep{Do: RebootRecord}
	case r.Waiting == 0:
		return RebootStep{Do: RebootDrain, After: least.Sub(now)}
	case !now.Before(end):
		return RebootStep{Do: RebootFail, Result: RebootDrainTimeout, Why: "its pods could not be evicted within " + rebootDrain.String() + ", and no grace period bounds that"}
	}
	return RebootStep{Do: RebootDrain, After: min(rebootAskAgain, end.Sub(now))}
}

// recover waits for a node whose instance reboots.
func (r Rebooting) recover(now time.Time) RebootStep {
	back := r.Boot != "" && r.Boot != r.PreBoot
	end := later(r.Issued.Add(rebootWindow), r.Watching.Add(grace)) // after an outage nodes need a moment to be heard of
	switch {
	case back && r.Ready:
		return RebootStep{Do: RebootSucceed, Result: RebootSucceeded}
	case now.Before(end):
		return RebootStep{Do: RebootHold, After: rebootPoll}
	case back:
		return RebootStep{Do: RebootFail, Result: RebootRecoveryTimeout, Why: "it has rebooted, and is not Ready after " + rebootWindow.String()}
	}
	return RebootStep{Do: RebootFail, Result: RebootRecoveryTimeout, Why: "it has not come back within " + rebootWindow.String()}
}

// Reboots reads when an instance was rebooted within the last day. What is no time is left out.
func Reboots(text string, now time.Time) []time.Time {
	var out []time.Time
	for part := range strings.SplitSeq(text, ",") {
		if at, err := time.Parse(time.RFC3339, strings.TrimSpace(part)); err == nil && now.Sub(at) < rebootDay {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// Rebooted writes the reboots of the last day down, with one at this moment.
func Rebooted(text string, now time.Time) string {
	list := append(Reboots(text, now), now)
	parts := make([]string, len(list))
	for i, at := range list {
		parts[i] = stamp(at)
	}
	return strings.Join(parts, ",")
}

// MayReboot says whether an instance that was rebooted at these times within the last day may be rebooted once more, or else is to be
// replaced.
func MayReboot(reboots []time.Time) bool { return len(reboots) < maxReboots }
