package explain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

const catalogue = `{"instanceTypes": [
 {"name": "m.large", "labels": {"kubernetes.io/arch": "amd64"}, "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"},
  "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.1}]},
 {"name": "m.xlarge", "labels": {"kubernetes.io/arch": "amd64"}, "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
  "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.2}]}]}`

const objects = `{"kind": "List", "items": [
 {"kind": "NodePool", "metadata": {"name": "general"}, "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}},
  "disruption": {"consolidateAfter": "0s", "budgets": []}}},
 {"kind": "NodeClaim", "metadata": {"name": "c1", "labels": {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "m.xlarge", "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}},
  "status": {"providerID": "p/1", "lastPodEventTime": "2026-01-05T10:00:00Z", "conditions": [{"type": "Launched", "status": "True"}, {"type": "Registered", "status": "True"}, {"type": "Initialized", "status": "True"}]}},
 {"kind": "Node", "metadata": {"name": "n1", "labels": {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "m.xlarge", "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/initialized": "true", "karpenter.sh/registered": "true"}},
  "spec": {"providerID": "p/1"}, "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": 0}},
 {"kind": "Pod", "metadata": {"name": "web-0", "namespace": "default", "uid": "u1", "labels": {"app": "web"}}, "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
  "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "Pod", "metadata": {"name": "huge", "namespace": "default", "uid": "u2"}, "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]},
  "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}]}`

func cluster(t testing.TB, l *ledger.Ledger) *explain.Cluster {
	t.Helper()
	return clusterOf(t, objects, explain.Options{Now: noon, Ledger: l.List})
}

func clusterOf(t testing.TB, list string, opt explain.Options) *explain.Cluster {
	t.Helper()
	return explain.New(viewOf(t, list), nil, opt)
}

func viewOf(t testing.TB, list string) *state.View {
	t.Helper()
	read, problems, err := dump.Read([]byte(list))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	types, err := dump.ReadCatalog([]byte(catalogue))
	if err != nil {
		t.Fatal(err)
	}
	view, problems := state.BuildView(read, types, state.Options{}, noon)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return view
}

func TestAnswersCarryHistory(t *testing.T) {
	l := ledger.New(10, "test", func() time.Time { return noon.Add(-time.Minute) })
	id := l.Add(ledger.Entry{
		Kind: ledger.Move, Reason: "Underutilized", Summary: "n0 m.2xlarge: replaced by m.xlarge", Outcome: ledger.Open, Saves: 0.2, Evicts: 1,
		Remove: []model.Node{{Node: "n0", Claim: "c0", Type: "m.2xlarge", Price: 0.4}}, Add: []model.Node{{Claim: "c1", Node: "n1", Type: "m.xlarge", Price: 0.2}},
	})
	l.Settle(id, ledger.Done, "c1 took its place within 50s")
	c := cluster(t, l)
	for _, test := range []struct {
		name string
		ask  func() (*explain.Answer, error)
	}{
		{"node", func() (*explain.Answer, error) { return c.Node("n1") }},
		{"claim", func() (*explain.Answer, error) { return c.Claim("c1") }},
	} {
		a, err := test.ask()
		if err != nil || len(a.History) != 1 || a.History[0].ID != id {
			t.Errorf("%s: %v, %+v", test.name, err, a)
		}
	}
	a, err := c.Move("#1")
	if err != nil {
		t.Fatal(err)
	}
	want := "move 1 was carried out: n0 m.2xlarge: replaced by m.xlarge; c1 took its place within 50s."
	if got := a.Headline(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	facts := map[string]string{}
	for _, f := range a.Facts {
		facts[f.Name] = f.Value
	}
	wantFacts := map[string]string{
		"removes": "n0, c0, m.2xlarge, $0.4000/h", "adds": "n1, c1, m.xlarge, $0.2000/h", "restarts": "1", "saves": "$0.2000/h",
		"decided": "Mon 5 Jan 11:59 UTC, 1m ago", "over": "Mon 5 Jan 11:59 UTC, 1m ago",
	}
	if d := cmp.Diff(wantFacts, facts); d != "" {
		t.Error(d)
	}
}

// A replica that the scheduler has not tried says why it is planned all the same.
func TestP1_APodThatTheSchedulerHasNotTriedSaysWhyItIsPlanned(t *testing.T) {
	kin := `{"kind": "Pod", "metadata": {"name": "%s", "namespace": "default", "uid": "%[1]s", "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true}]},
  "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]}, "status": {"phase": "Pending"%s}}`
	refused := `, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]`
	c := clusterOf(t, strings.TrimSuffix(objects, "]}")+","+fmt.Sprintf(kin, "seen", refused)+","+fmt.Sprintf(kin, "unseen", "")+"]}", explain.Options{Now: noon})
	for name, want := range map[string]string{"seen": "", "unseen": "the scheduler has found others of ReplicaSet web unschedulable, and has not tried this one yet"} {
		a, err := c.Pod("default", name)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range a.Facts {
			if f.Name == "planned because" {
				got = f.Value
			}
		}
		if got != want || !strings.Contains(a.Verdict, "until a new node is launched: m.xlarge") {
			t.Errorf("%s: %q, planned because %q", name, a.Verdict, got)
		}
	}
}

func TestNotFoundNamesWhatIsSimilar(t *testing.T) {
	c := cluster(t, nil)
	for _, test := range []struct {
		want string
		ask  func() (*explain.Answer, error)
	}{
		{"web-0", func() (*explain.Answer, error) { return c.Pod("default", "web-O") }},
		{"default/web-0", func() (*explain.Answer, error) { return c.Pod("shop", "web-0") }},
		{"c1", func() (*explain.Answer, error) { return c.Claim("c11x") }},
		{"general", func() (*explain.Answer, error) { return c.Pool("genral") }},
		{"no move is known", func() (*explain.Answer, error) { return c.Move("1") }},
	} {
		_, err := test.ask()
		var missing *explain.NotFound
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want something about %s", err, test.want)
		}
	}
}

func TestQuestionsAreIndependent(t *testing.T) {
	text := func(c *explain.Cluster) string {
		var b strings.Builder
		for _, ask := range []func() (*explain.Answer, error){
			func() (*explain.Answer, error) { return c.Node("n1") },
			func() (*explain.Answer, error) { return c.Pod("default", "huge") },
			func() (*explain.Answer, error) { return c.Pod("default", "web-0") },
			func() (*explain.Answer, error) { return c.Pool("general") },
		} {
			a, err := ask()
			if err != nil {
				t.Error(err)
				continue
			}
			if err := a.Tree(&b); err != nil {
				t.Error(err)
			}
		}
		return b.String()
	}
	want := text(cluster(t, nil))
	c := cluster(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := text(c); got != want {
				t.Errorf("the answers differ:\n%s", cmp.Diff(want, got))
			}
		})
	}
	wg.Wait()
}

func TestAnswerAsJSON(t *testing.T) {
	a, err := cluster(t, nil).Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Subject ledger.Ref `json:"subject"`
		Verdict string     `json:"verdict"`
		Change  []struct {
			Text  string  `json:"text"`
			Frees string  `json:"frees"`
			Saves float64 `json:"savesPerHour"`
		} `json:"change"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Subject != (ledger.Ref{Kind: "Node", Name: "n1"}) || !strings.Contains(got.Verdict, "PodDisruptionBudget default/web") {
		t.Errorf("got %s", data)
	}
	if len(got.Change) != 1 || got.Change[0].Frees != "m.xlarge" || got.Change[0].Saves <= 0 {
		t.Errorf("got %s", data)
	}
}

func TestD15_BudgetWindows(t *testing.T) {
	hours := v1.NewDuration(8 * time.Hour)
	schedule := "0 9 * * mon-fri"
	pool := &v1.NodePool{Spec: v1.NodePoolSpec{Disruption: v1.Disruption{Budgets: []v1.Budget{{Nodes: "0", Schedule: &schedule, Duration: &hours}, {Nodes: "50%"}}}}}
	var got []string
	for _, w := range explain.BudgetWindows(pool, disrupt.Underutilized, 4, [2]time.Time{noon, noon.Add(30 * time.Hour)}) {
		got = append(got, fmt.Sprintf("%s %d", w.From.Format("Mon 15:04"), w.Allowed))
	}
	want := []string{"Mon 12:00 0", "Mon 17:00 2", "Tue 09:00 0", "Tue 17:00 2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A move is the same by whichever of its names: the number of its decision, or the id on its claims.
func TestMoveByEitherName(t *testing.T) {
	l := ledger.New(10, "test", func() time.Time { return noon.Add(-time.Minute) })
	l.Add(ledger.Entry{Kind: ledger.Move, Key: "old-1", Summary: "another", Outcome: ledger.Done})
	l.Add(ledger.Entry{
		Kind: ledger.Move, Reason: "Drifted", Key: "abc-7", Summary: "drifted node n1 is replaced", Outcome: ledger.Open,
		Remove: []model.Node{{Node: "n1", Claim: "c1", Type: "m.xlarge"}}, Add: []model.Node{{Claim: "c2", Type: "m.large"}},
	})
	marked := strings.Replace(objects, `"metadata": {"name": "c1", `, `"metadata": {"name": "c1", "annotations": {"karpenter.sh/move": "id=abc-7 reason=Drifted began=2026-01-05T11:59:00Z to=c2"}, `, 1)
	made := `{"kind": "NodeClaim", "metadata": {"name": "c2", "creationTimestamp": "2026-01-05T11:59:00Z", "annotations": {"karpenter.sh/moved-from": "id=abc-7 from=general/m.xlarge/a/on-demand"},
	  "labels": {"karpenter.sh/nodepool": "general"}}},`
	marked = strings.Replace(marked, `"items": [`, `"items": [`+made, 1)
	text := func(c *explain.Cluster, id string) string {
		t.Helper()
		a, err := c.Move(id)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := a.Tree(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	told := clusterOf(t, marked, explain.Options{Now: noon, Ledger: l.List})
	want := text(told, "2")
	for _, id := range []string{"#2", "abc-7"} {
		if d := cmp.Diff(want, text(told, id)); d != "" {
			t.Errorf("%s is another move than 2:\n%s", id, d)
		}
	}
	for _, part := range []string{"move 2 is under way: drifted node n1 is replaced.", "on claims  abc-7", "NodeClaim c1 (m.xlarge", "NodeClaim c2"} {
		if !strings.Contains(want, part) {
			t.Errorf("the answer lacks %q:\n%s", part, want)
		}
	}
	// A process that has begun since, and nobody at all, tell it from the claims.
	fresh := ledger.New(10, "next", func() time.Time { return noon })
	alone := text(clusterOf(t, marked, explain.Options{Now: noon}), "abc-7")
	if d := cmp.Diff(alone, text(clusterOf(t, marked, explain.Options{Now: noon, Ledger: fresh.List}), "abc-7")); d != "" {
		t.Error(d)
	}
	for _, part := range []string{"move abc-7 is under way (Drifted): removes c1, replaced by c2.", "replaces  general/m.xlarge/a/on-demand", "begun     Mon 5 Jan 11:59 UTC, 1m ago"} {
		if !strings.Contains(alone, part) {
			t.Errorf("the answer lacks %q:\n%s", part, alone)
		}
	}
	_, err := clusterOf(t, marked, explain.Options{Now: noon}).Move("2")
	if want := `there is no move "2"; numbers are those of the controller's ledger, which is not asked here; moves that stand on claims: abc-7`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// Once what it took away is gone, what it made still says which move it was.
	over := text(clusterOf(t, strings.Replace(objects, `"items": [`, `"items": [`+made, 1), explain.Options{Now: noon}), "abc-7")
	if want := "move abc-7 is over: what it removed is gone; it launched c2."; !strings.HasPrefix(over, want) {
		t.Errorf("got %s, want %s", over, want)
	}
}
