package claim

import (
	"fmt"
	"slices"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// recordLaunches keeps what became of claims that were launched together: one entry for the instances that there are, and one for each
// reason why there are none.
func (r *Lifecycle) recordLaunches(answers []answer) {
	if r.Ledger == nil {
		return
	}
	var had []model.Node
	failed := map[string][]answer{}
	var reasons []string
	for _, a := range answers {
		if a.Err == nil {
			had = append(had, r.Ledger.Node(a.claim))
			continue
		}
		key := a.claim.Labels[karpv1.NodePoolLabelKey] + " " + cloud.ReasonOf(a.Err)
		if failed[key] = append(failed[key], a); len(failed[key]) == 1 {
			reasons = append(reasons, key)
		}
	}
	if len(had) > 0 {
		r.Ledger.Add(ledger.Entry{Kind: ledger.Launch, Reason: "Launched", Outcome: ledger.Done, Summary: ledger.LaunchSummary(had), Add: had})
	}
	slices.Sort(reasons)
	for _, key := range reasons {
		r.recordFailure(failed[key])
	}
}

// recordFailure keeps why claims of a pool have no instance.
func (r *Lifecycle) recordFailure(list []answer) {
	first := list[0]
	class := cloud.ClassOf(first.Err)
	e := ledger.Entry{
		Kind: ledger.Failure, Reason: cloud.ReasonOf(first.Err), Outcome: ledger.Failed,
		Why: []why.Reason{why.New(why.Stock, "%s: %s", class, cut(first.Err.Error(), maxMessage))},
	}
	for _, a := range list {
		e.Add = append(e.Add, model.Node{Claim: a.claim.Name, Pool: a.claim.Labels[karpv1.NodePoolLabelKey]})
	}
	subject, verb := "claim "+first.claim.Name, "has"
	if len(list) > 1 {
		subject, verb = fmt.Sprintf("%d claims of pool %s", len(list), e.Add[0].Pool), "have"
	}
	then := "it is tried again"
	if class.Response().GiveUp {
		then = "pods are planned again without it"
	}
	e.Summary = fmt.Sprintf("%s %s no instance: %s; %s", subject, verb, cut(first.Err.Error(), maxMessage), then)
	r.Ledger.Add(e)
}

// gaveUp says what a claim has not become in time.
func gaveUp(step life.Milestone) string {
	switch step {
	case life.Launched:
		return "was not launched in time and is deleted"
	case life.Registered:
		return "never joined the cluster and is deleted"
	}
	return "did not become usable in time and is deleted"
}
