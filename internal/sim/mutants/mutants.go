// Package mutants tests the tests: it brings back, one at a time, mistakes that have cost others their clusters, and holds that the
// simulator notices each. A mutant is a change of the product's source that is applied by a build overlay, so that none of it is in
// the product; all are in one program, and package on says which of them is on.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one mistake.
type Mutant struct {
	Name string
	// Story is what goes wrong, and where it has: the rows of the reliability page.
	Story string
	Edits []Edit
	// Plan is what is played first; then seeds are.
	Plan string
}

// Edit replaces a text in a file, which must be there exactly once.
type Edit struct{ File, Old, New string }

// small is a cluster whose nodes are drifted.
const small = `seed 5
0s pool default budget=1 after=30s
0s app web 10 3 6Gi pdb=2
`

// alone is a cluster of one node.
const alone = `seed 5
0s pool default after=30m
0s app web 1 3 6Gi
`

// Mutants are all of them.
var Mutants = []Mutant{
	{
		"no-token", "a launch is repeated with another token: two instances for one claim (core#1448, core#2808)",
		[]Edit{{"internal/cloud/aws/fleet.go", "ClientToken: aws.String(p.token(o.batch.ID))", `ClientToken: aws.String(on.Pick("no-token", p.token(o.batch.ID), p.token(o.batch.ID+p.opt.Clock.Now().String())))`}},
		small + "0s fault drop ec2:CreateFleet 50%\n10m calm\n20m end\n",
	},
	{
		"fresh-token-after-timeout", "no answer is taken for a refusal, and the next attempt has a token of its own (oracle#97)",
		[]Edit{{"internal/cloud/aws/launch.go", `		p.launchFailed(o, "", cloud.ReasonOf(err))`, `		if on.Mutant("fresh-token-after-timeout") {
			p.attempts.Raise(o.batch.ID)
		}
		p.launchFailed(o, "", cloud.ReasonOf(err))`}},
		small + "0s fault drop ec2:CreateFleet 50%\n10m calm\n20m end\n",
	},
	{
		"no-birth-tag", "an instance does not know its claim at birth, so that nobody can find it after a crash (section 2)",
		[]Edit{{"internal/cloud/aws/launch.go", "	if len(batch.Claims) == 1 {\n		tags[awsv1.TagNodeClaim]", `	if on.Mutant("no-birth-tag") {
		delete(tags, cloud.BatchAnnotationKey)
	}
	if len(batch.Claims) == 1 {
		tags[awsv1.TagNodeClaim]`}},
		small + "3m calm\n",
	},
	{
		"finalizer-early", "the finalizer of a claim is removed when the end of its instance has been asked for, not when it has ended (aws PR#7684)",
		[]Edit{{"internal/control/drain/claims.go", "	return result.Gone, result.Again, nil", `	return result.Gone || on.Mutant("finalizer-early"), result.Again, nil`}},
		alone + "0s when after aws/CreateFleet when after patch/NodeClaim/status delete nodeclaim\n5m calm\n",
	},
	{
		"no-quota", "the collector ends everything that has no claim at once (a restored etcd; section 2)",
		[]Edit{
			{"internal/control/quota.go", "	if len(p.spent) >= quotaOf(fleet) {", `	if len(p.spent) >= quotaOf(fleet) && !on.Mutant("no-quota") {`},
			{"internal/engine/life/inventory.go", "	v.Gone = v.Gone[:min(len(v.Gone), most)]", `	v.Gone = v.Gone[:on.Pick("no-quota", min(len(v.Gone), most), len(v.Gone))]`},
		},
		"seed 5\n0s pool default after=30m\n0s app web 30 3 6Gi\n3m restore\n45m calm\n",
	},
	{
		"forgotten-writes", "what was created a moment ago and no watch has shown is not counted: limits overrun (core#2915, 608 became 627)",
		[]Edit{{"internal/state/assume.go", "	until := m.clock().Add(assumeFor)", `	if on.Mutant("forgotten-writes") {
		return
	}
	until := m.clock().Add(assumeFor)`}},
		"seed 5\n0s pool default nodes=4\n0s app web 2 3 6Gi\n3m lag 80s\n4m scale web 6\n4m20s scale web 12\n4m40s scale web 20\n5m scale web 28\n5m20s scale web 36\n12m calm\n12m scale web 4\n20m end\n",
	},
	{
		"no-budget", "budgets of pools are not looked at (core#1750)",
		[]Edit{{"internal/engine/disrupt/decider.go", "	return max(0, d.pools[pool].Allowed[reason]-d.taken[pool])", `	return on.Pick("no-budget", max(0, d.pools[pool].Allowed[reason]-d.taken[pool]), 100)`}},
		"seed 5\n0s pool default budget=1 after=30s\n0s app web 5 14 20Gi\n3m scale web 0\n8m calm\n",
	},
	{
		"drain-without-pdb", "pods are deleted instead of evicted, so that nobody asks their PodDisruptionBudget",
		[]Edit{{"internal/control/drain/queue.go", "	if j.step.Do == life.Evict {\n		return q.evict(ctx, j.pod)", `	if j.step.Do == life.Evict && !on.Mutant("drain-without-pdb") {
		return q.evict(ctx, j.pod)`}},
		small + "5m drift\n20m end\n",
	},
	{
		"no-last-look", "pods are not looked at again before a node is removed (core#3185, core#651)",
		[]Edit{{"internal/control/disruption/check.go", "	forced := r.forced(n.Claim)", `	if on.Mutant("no-last-look") {
		return "", nil
	}
	forced := r.forced(n.Claim)`}},
		small + "5m drift\n5m when each after patch/Node protect\n15m calm\n",
	},
	{
		"no-drain", "an instance is ended while its pods run",
		[]Edit{{"internal/control/drain/pods.go", "		if plan.Waiting == 0 {", `		if plan.Waiting == 0 || on.Mutant("no-drain") {`}},
		small + "5m drift\n20m end\n",
	},
	{
		"ending-pods-forgotten", "a pod that has been asked to leave counts as gone, so that it has no time to end",
		[]Edit{{"internal/engine/life/drain.go", "		if step.Do != Skip {", `		if step.Do != Skip && (step.Do != Wait || !on.Mutant("ending-pods-forgotten")) {`}},
		small + "5m drift\n20m end\n",
	},
	{
		"drain-trusts-cache", "a node counts as drained because a late watch shows no pods (core#651)",
		[]Edit{{"internal/control/drain/pods.go", "[]client.Reader{r.Client, r.Live}", `[]client.Reader{r.Client, on.Pick("drain-trusts-cache", r.Live, client.Reader(r.Client))}`}},
		"seed 5\n0s pool default after=30m\n0s app web 4 3 6Gi\n3m scale web 0\n4m watch hold Pod 10m\n4m when after patch/Node bind\n4m1s delete nodeclaim\n10m calm\n",
	},
	{
		"protection-ignored", "karpenter.sh/do-not-disrupt is not heeded (aws#4758)",
		[]Edit{{"internal/engine/life/grace.go", "	switch value {\n	case \"true\":\n		return Protection{Holds: true}", `	if on.Mutant("protection-ignored") {
		return Protection{}
	}
	switch value {
	case "true":
		return Protection{Holds: true}`}},
		"seed 5\n0s pool default after=30s\n0s app web 10 3 6Gi protected=3\n5m drift\n15m delete nodeclaim\n16m delete nodeclaim\n17m delete nodeclaim\n30m calm\n",
	},
	{
		"foreign-uid", "a cluster of the same name is taken for this one, and its instances for orphans (section 2)",
		[]Edit{{"internal/cloud/aws/instances.go", "	if uid := in.Tags[TagClusterUID]; uid != \"\"", `	if on.Mutant("foreign-uid") {
		return false
	}
	if uid := in.Tags[TagClusterUID]; uid != ""`}},
		small + "0s foreign\n60m calm\n",
	},
	{
		"adopt-taken", "an instance that one claim has is given to another of the batch",
		[]Edit{
			{"internal/cloud/aws/adopt.go", "		case batch.Taken[in.ID] || in.State.Ending():", `		case batch.Taken[in.ID] && !on.Mutant("adopt-taken") || in.State.Ending():`},
			{"internal/cloud/aws/launch.go", "return o.batch.Taken[in.ID] })", `return o.batch.Taken[in.ID] && !on.Mutant("adopt-taken") })`},
			{"internal/control/claim/launch.go", "				if taken[in.ID] {", `				if taken[in.ID] && !on.Mutant("adopt-taken") {`},
		},
		"seed 1\n0s pool default after=30m\n0s app web 5 14 20Gi\n0s when after aws/CreateFleet when after patch/NodeClaim/status crash\n5m calm\n10m end\n",
	},
	{
		"replacement-not-awaited", "nodes are deleted before what replaces them is ready (core#3072, aws#6952)",
		[]Edit{{"internal/control/disruption/command.go", "	return len(c.lost) == 0 &&", `	return on.Mutant("replacement-not-awaited") || len(c.lost) == 0 &&`}},
		small + "5m drift\n25m end\n",
	},
	{
		"move-not-recorded", "which nodes are being replaced is known to the process alone (section 2)",
		[]Edit{{"internal/control/disruption/write.go", "func (l *Loop) mark(ctx context.Context, n *state.Node, r record) error {\n", `func (l *Loop) mark(ctx context.Context, n *state.Node, r record) error {
	if on.Mutant("move-not-recorded") {
		return nil
	}
`}},
		"seed 5\n0s pool default budget=1 after=30s nodes=11\n0s app web 10 3 6Gi pdb=2\n5m drift\n5m1s crash\n5m3s crash\n5m6s crash\n5m10s crash\n5m20s crash\n5m30s crash\n6m crash\n20m calm\n85m end\n",
	},
	{
		"interrupted-move-forgotten", "a move that a crash has cut short leaves its nodes tainted for ever (core#1448)",
		[]Edit{{"internal/control/disruption/advance.go", "	case len(c.to) == 0:\n", "	case len(c.to) == 0 && on.Mutant(\"interrupted-move-forgotten\"):\n		return false, nil\n	case len(c.to) == 0:\n"}},
		"seed 5\n0s pool default after=30s\n0s app web 4 3 6Gi\n3m scale web 0\n3m when after patch/Node crash\n8m calm\n74m end\n",
	},
	{
		"unlaunched-forgotten", "a claim without an instance on record goes without asking the cloud whether it has one (core#2808)",
		[]Edit{{"internal/control/drain/claims.go", "	deleted := claim.DeletionTimestamp.Time\n", `	if on.Mutant("unlaunched-forgotten") && claim.Status.ProviderID == "" {
		return "", true, nil
	}
	deleted := claim.DeletionTimestamp.Time
`}},
		alone + "0s when after aws/CreateFleet delete nodeclaim\n0s when after aws/CreateFleet crash\n10m calm\n",
	},
	{
		"no-optimistic-lock", "writes that others get in the way of overwrite what they have written (T16)",
		[]Edit{{"internal/control/patch.go", `	metadata["resourceVersion"] = version`, `	if metadata["resourceVersion"] = version; on.Mutant("no-optimistic-lock") {
		delete(metadata, "resourceVersion")
	}`}},
		small + "4m when each before patch/Node taint\n5m drift\n15m calm\n",
	},
	{
		"cached-collection", "claims that a late watch has not shown are taken for gone, and their instances for orphans (section 2)",
		[]Edit{
			{"internal/control/claim/collect.go", "		claims, err = r.claims(ctx, r.Live)", `		claims, err = r.claims(ctx, on.Pick("cached-collection", r.Live, client.Reader(r.Client)))`},
			{"internal/control/claim/collect.go", "	again, err := r.claims(ctx, r.Live)", `	again, err := r.claims(ctx, on.Pick("cached-collection", r.Live, client.Reader(r.Client)))`},
		},
		"seed 5\n0s pool default after=30m\n0s replicas 2\n0s app web 3 14 20Gi\n3m watch hold NodeClaim 20m standby\n3m10s scale web 4\n5m crash\n20m calm\n",
	},
	{
		"finalizer-after-launch", "an instance is launched for a claim that can go without it (core#1448)",
		[]Edit{
			{"internal/control/claim/launch.go", "			if controllerutil.AddFinalizer(claim, karpv1.TerminationFinalizer) {", `			if !on.Mutant("finalizer-after-launch") && controllerutil.AddFinalizer(claim, karpv1.TerminationFinalizer) {`},
			{"internal/control/claim/lifecycle.go", "		controllerutil.AddFinalizer(t.claim, karpv1.TerminationFinalizer)", `		if !on.Mutant("finalizer-after-launch") {
			controllerutil.AddFinalizer(t.claim, karpv1.TerminationFinalizer)
		}`},
			{"internal/control/provision/claims.go", "			Finalizers: []string{karpv1.TerminationFinalizer},", `			Finalizers: on.Pick("finalizer-after-launch", []string{karpv1.TerminationFinalizer}, nil),`},
			{"internal/engine/life/claim.go", "	case !c.Finalizer:\n", `	case !c.Finalizer && (!on.Mutant("finalizer-after-launch") || c.ProviderID != ""):
`},
		},
		alone + "0s when after aws/CreateFleet delete nodeclaim\n10m calm\n",
	},
	{
		"one-not-found", "one answer that an instance is not there is proof (section 2; AWS says that it is none)",
		[]Edit{{"internal/control/drain/ender.go", "	case cloud.ReasonOf(err) == cloud.ReasonTerminated:", `	case cloud.ReasonOf(err) == cloud.ReasonTerminated, on.Mutant("one-not-found"):`}},
		alone + "4m fault error ec2:TerminateInstances 100% code=InvalidInstanceID.NotFound status=400\n4m1s delete nodeclaim\n9m calm\n",
	},
	{
		"global-gate", "nothing is launched while one claim has no instance (core#3176: 18 to 21 hours)",
		[]Edit{{"internal/control/provision/provision.go", "	pods := view.World.Over().Wanting()\n", `	for _, n := range view.Nodes {
		if on.Mutant("global-gate") && n.Claim != nil && n.Claim.Status.ProviderID == "" {
			return nil
		}
	}
	pods := view.World.Over().Wanting()
`}},
		alone + "0s poison\n5m scale web 9\n10m calm\n20m end\n",
	},
}

// Overlay writes changed copies of the product's files into a folder, and what go build -overlay needs; it returns the path of that.
// root is where the module is. A text that is not there exactly once is an error: the product has changed, and so must the mutant.
func Overlay(root, into string) (string, error) {
	changed := map[string]string{}
	for _, m := range Mutants {
		for _, e := range m.Edits {
			text, ok := changed[e.File]
			if !ok {
				raw, err := os.ReadFile(filepath.Join(root, e.File))
				if err != nil {
					return "", fmt.Errorf("mutant %s: %w", m.Name, err)
				}
				text = string(raw)
				if !strings.Contains(text, "\nimport ") {
					return "", fmt.Errorf("mutant %s: %s imports nothing", m.Name, e.File)
				}
				text = strings.Replace(text, "\nimport ", "\nimport \"karpenter/internal/sim/mutants/on\"\nimport ", 1)
			}
			if n := strings.Count(text, e.Old); n != 1 {
				return "", fmt.Errorf("mutant %s: %s has the text %d times that is to be changed; it must have it once:\n%s", m.Name, e.File, n, e.Old)
			}
			changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
		}
	}
	replace := map[string]string{}
	files := make([]string, 0, len(changed))
	for file := range changed {
		files = append(files, file)
	}
	slices.Sort(files)
	for i, file := range files {
		path := filepath.Join(into, fmt.Sprintf("%d-%s", i, filepath.Base(file)))
		if err := os.WriteFile(path, []byte(changed[file]), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = path
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(into, "overlay.json")
	return path, os.WriteFile(path, raw, 0o600)
}
