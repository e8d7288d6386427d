package web_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"karpenter/internal/engine/why"
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/web"
)

// stopped is a Wednesday morning, when budgets of the made-up pools allow no consolidation; sunday is when they do.
func stopped() time.Time { return time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC) }
func sunday() time.Time  { return time.Date(2026, 3, 8, 10, 30, 0, 0, time.UTC) }

// decisions puts one of each kind into the ledger.
func decisions(c *cluster) {
	nodes := c.View().Nodes
	instance := func(i int) model.Node {
		w := nodes[i].World
		return model.Node{Claim: w.Claim, Node: w.Name, Pool: w.Pool, Type: "m6i.large", Zone: "us-west-2a", CapacityType: "spot", Price: w.Price, Pods: []string{"shop/" + w.Pods[0].Name}}
	}
	about := func(i int) []ledger.Ref { return []ledger.Ref{{Kind: "Node", Name: nodes[i].World.Name}} }
	c.ledger.Add(ledger.Entry{Kind: ledger.Plan, Summary: "6 pods get 2 new nodes at $0.2304/h", Add: []model.Node{instance(0), instance(1)}, Why: []why.Reason{
		why.New(why.Chosen, "m6i.2xlarge spot in us-west-2b is the cheapest that fits 3 of the pods"),
		{Code: why.NextBest, Text: "r6i.2xlarge would cost $0.0408/h more", Because: []why.Reason{why.Counted(why.Stock, 2, 6, "offerings are out of stock")}},
	}})
	c.ledger.Add(ledger.Entry{Kind: ledger.Launch, Reason: "Launched", Summary: "m6i.2xlarge spot in us-west-2b asked for", Add: []model.Node{instance(0)}, About: about(0), Outcome: ledger.Done})
	id := c.ledger.Add(ledger.Entry{Kind: ledger.Move, Reason: "Underutilized", Summary: "2 nodes make way for 1, which saves $0.1544/h", Remove: []model.Node{instance(2), instance(3)}, Add: []model.Node{instance(4)}, Evicts: 11, Saves: 0.1544, Outcome: ledger.Open, About: about(2)})
	c.ledger.Settle(id, ledger.Done, "done after 94 s")
	c.ledger.Add(ledger.Entry{Kind: ledger.Refusal, Summary: "1 pod is unschedulable: no type has 64 CPU", About: []ledger.Ref{{Kind: "Pod", Namespace: "shop", Name: "report-7c5d8f9b6d-000de"}}, Why: []why.Reason{why.New(why.Resource, "no type has 64 CPU; the largest has 16")}})
	c.ledger.Add(ledger.Entry{Kind: ledger.Failure, Reason: "InsufficientCapacity", Summary: "m6i.4xlarge spot in us-west-2c is out of stock; the next offering is tried"})
	c.ledger.Add(ledger.Entry{Kind: ledger.Interruption, Reason: "SpotInterrupted", Summary: "spot takes " + nodes[5].World.Name + " away in two minutes; a replacement is being launched", About: about(5), Remove: []model.Node{instance(5)}})
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func read[T any](t *testing.T, h http.Handler, path string) T {
	t.Helper()
	w := get(t, h, path)
	var out T
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d, %v\n%.500s", path, w.Code, err, w.Body)
	}
	return out
}

type live struct {
	Run     string
	Version uint64
	From    *uint64
	Full    bool
	Nodes   []struct {
		Key string
		model.FleetNode
		PodRows []any
	}
	Gone    []string
	Totals  *model.Totals
	Savings *struct {
		Moves        int
		SavesPerHour float64
	}
	Pending []model.Pending
	Next    *struct {
		Add   []model.PlannedNode
		Moves []model.Move
	}
}

func TestFleet(t *testing.T) {
	c := smallCluster(t, sunday)
	m := read[live](t, web.Handler(c, web.Options{}), "/api/v1/fleet")
	if !m.Full || len(m.Nodes) != 24 || m.Totals.Nodes != 24 || m.Totals.PodSlots.Requested != 24*9 || m.Totals.Pending != 7 {
		t.Errorf("full %v, %d nodes, totals %+v", m.Full, len(m.Nodes), m.Totals)
	}
	n := m.Nodes[0]
	if n.State != "ready" || n.Price == 0 || n.CPU.Allocatable == 0 || n.CPU.Requested == 0 || len(n.PodRows) != 4*9 {
		t.Errorf("node %+v", n)
	}
	if m.Savings.Moves != 1 || m.Savings.SavesPerHour != 0.1544 {
		t.Errorf("savings %+v", m.Savings)
	}
	states := map[string]int{}
	for _, g := range m.Pending {
		states[g.State] += g.Count
		if g.State == model.PendingUnschedulable && (len(g.Why) == 0 || g.Summary != model.MainReason(g.Why)) {
			t.Errorf("a group that is stuck says no reason: %+v", g)
		}
	}
	if states[model.PendingUnschedulable] != 1 || states["launch"]+states["room"] != 6 {
		t.Errorf("pods wait for %v, want 1 stuck and 6 with a place", states)
	}
	if len(m.Next.Moves) == 0 {
		t.Error("no move is decided; the cluster is half empty")
	}
}

func TestAPodThatHasJustComeWaitsForThePlan(t *testing.T) {
	c := smallCluster(t, stopped)
	h := web.Handler(c, web.Options{})
	c.addPod("late", 100, 100, "")
	for _, g := range read[live](t, h, "/api/v1/fleet").Pending {
		if strings.Contains(g.Pods[0], "late") && g.State == model.PendingNew {
			return
		}
	}
	t.Error("the new pod is not among those that wait for the next plan")
}

func TestPoolsShowBudgets(t *testing.T) {
	c := smallCluster(t, stopped)
	got := read[struct {
		At, Until time.Time
		Pools     []struct {
			Name, Ready string
			Nodes       int
			Limits      []struct {
				Resource, Used, Max string
				Share               float64
			}
			Budgets []struct {
				Active  bool
				Windows []struct{ From, To time.Time }
			}
			Allowed []struct {
				Reason string
				Spans  []struct {
					From, To time.Time
					Nodes    int
				}
			}
		}
	}](t, web.Handler(c, web.Options{}), "/api/v1/pools")
	if len(got.Pools) != 2 || got.Pools[1].Name != "general" {
		t.Fatalf("pools %+v", got.Pools)
	}
	p := got.Pools[1]
	if p.Ready != "True" || p.Nodes != 20 || len(p.Limits) != 3 || p.Limits[2].Used != "20" || p.Limits[2].Max != "1200" {
		t.Errorf("pool %+v", p)
	}
	// It is Wednesday 10:30: the second budget holds until 17:00, then again on Thursday, Friday, Monday, Tuesday and Wednesday.
	if !p.Budgets[1].Active || len(p.Budgets[1].Windows) != 6 {
		t.Errorf("budget %+v", p.Budgets[1])
	}
	for _, a := range p.Allowed {
		want := map[string][]int{"Underutilized": {0, 2}, "Empty": {2}, "Drifted": {2}}[a.Reason]
		for i, n := range want {
			if a.Spans[i].Nodes != n {
				t.Errorf("%s: %+v, want %v first", a.Reason, a.Spans, want)
			}
		}
		if first, last := a.Spans[0], a.Spans[len(a.Spans)-1]; !first.From.Equal(got.At) || !last.To.Equal(got.Until) {
			t.Errorf("%s: from %v to %v, want %v to %v", a.Reason, first.From, last.To, got.At, got.Until)
		}
	}
}

func TestDecisions(t *testing.T) {
	c := smallCluster(t, stopped)
	h := web.Handler(c, web.Options{})
	for path, want := range map[string]int{
		"": 6, "?kind=Move": 1, "?kind=Move,Plan": 2, "?kind=Move&kind=Plan": 2, "?since=4": 2, "?limit=1": 1,
		"?about=Node/" + c.View().Nodes[5].World.Name: 1, "?about=Pod/shop/report-7c5d8f9b6d-000de": 1, "?about=Node/none": 0,
	} {
		if got := read[ledger.Decisions](t, h, "/api/v1/decisions"+path); len(got.Decisions) != want || got.Newest != 6 {
			t.Errorf("%s: %d decisions, newest %d; want %d and 6", path, len(got.Decisions), got.Newest, want)
		}
	}
	if e := read[ledger.Decision](t, h, "/api/v1/decisions/3").Decision; e.Kind != ledger.Move || e.Outcome != ledger.Done {
		t.Errorf("decision 3 is %+v", e)
	}
	for path, code := range map[string]int{
		"decisions?since=x": 400, "decisions?limit=0": 400, "decisions?about=x": 400, "decisions/x": 400, "decisions/99": 404,
		"decisions/1/recording": 404, "nothing": 404, "explain/pod/none?namespace=shop": 404, "explain/thing/x": 400,
	} {
		var said struct{ Error string }
		w := get(t, h, "/api/v1/"+path)
		if err := json.Unmarshal(w.Body.Bytes(), &said); w.Code != code || err != nil || said.Error == "" {
			t.Errorf("%s: %d %s, want %d with what is wrong", path, w.Code, w.Body, code)
		}
	}
}

func TestExplainAndRecording(t *testing.T) {
	c := smallCluster(t, stopped)
	h := web.Handler(c, web.Options{})
	v := c.View()
	for _, path := range []string{
		"node/" + v.Nodes[0].World.Name, "nodeclaim/" + v.Nodes[0].World.Claim, "nodepool/general",
		"pod/" + c.stuck() + "?namespace=shop", "pod/" + v.Nodes[0].World.Pods[0].Name + "?namespace=shop",
	} {
		if a := read[explain.Answer](t, h, "/api/v1/explain/"+path); a.Verdict == "" || len(a.Facts) == 0 {
			t.Errorf("%s: %+v", path, a)
		}
	}
	r, err := ledger.Read(get(t, h, "/api/v1/recording").Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := r.View()
	if err != nil || len(again.Nodes) != 24 {
		t.Errorf("the recording has %d nodes, %v", len(again.Nodes), err)
	}
}

func TestNothingShowsWhatIsSecret(t *testing.T) {
	c := smallCluster(t, stopped)
	h := web.Handler(c, web.Options{Dashboard: true})
	v := c.View()
	if !strings.Contains(fmt.Sprint(v.Nodes[0].Pods[0].Spec), secret) {
		t.Fatal("the pod has no secret to show")
	}
	for _, path := range []string{
		"fleet", "history", "pools", "prices", "costs", "decisions", "decisions/1", "recording", "explain/node/" + v.Nodes[0].World.Name, "explain/nodeclaim/" + v.Nodes[0].World.Claim,
		"explain/nodepool/general", "explain/pod/" + v.World.Pending[0].Name + "?namespace=shop", "explain/pod/" + v.Nodes[0].World.Pods[0].Name + "?namespace=shop",
	} {
		if w := get(t, h, "/api/v1/"+path); w.Code != http.StatusOK || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: %d, with the secret: %v", path, w.Code, strings.Contains(w.Body.String(), secret))
		}
	}
	s := listen(t, h)
	for i, event := range follow(t, s.URL+"/api/v1/stream", 2) {
		if strings.Contains(event, secret) {
			t.Errorf("event %d of the stream has the secret", i)
		}
		c.ledger.Add(ledger.Entry{Kind: ledger.Plan, Summary: "one more"})
	}
}

func listen(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// follow yields the data of events; whoever ranges over it must stop.
func follow(t *testing.T, address string, most int) func(func(int, string) bool) {
	t.Helper()
	return func(yield func(int, string) bool) {
		r, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		lines := bufio.NewReader(r.Body)
		for i := 0; i < most; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || data == "{}\n" {
				continue
			}
			if !yield(i, data) {
				return
			}
			i++
		}
	}
}

func TestStreamSendsWhatChanges(t *testing.T) {
	c := smallCluster(t, stopped)
	s := listen(t, web.Handler(c, web.Options{}))
	have := map[string]bool{}
	var last live
	steps := []func(){
		func() { c.addNode(100, "general") },
		func() { c.addPod("extra", 100, 100, c.View().Nodes[0].World.Name) },
		func() {
			c.mirror.Drop(c.View().Nodes[1].Object)
			c.mirror.Drop(c.View().Claim(c.View().Nodes[1].World.Claim).Claim)
		},
	}
	for i, data := range follow(t, s.URL+"/api/v1/stream", 12) {
		var m live
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatal(err)
		}
		if i == 0 && (!m.Full || len(m.Nodes) != 24) {
			t.Fatalf("the stream begins with %d nodes, full %v", len(m.Nodes), m.Full)
		}
		if i > 0 && (m.Full || m.From == nil || *m.From != last.Version || len(m.Nodes) > 2) {
			t.Fatalf("after version %d comes %d from %v with %d nodes, full %v", last.Version, m.Version, m.From, len(m.Nodes), m.Full)
		}
		for _, n := range m.Nodes {
			have[n.Key] = true
		}
		for _, key := range m.Gone {
			delete(have, key)
		}
		last = m
		want := len(c.View().Nodes)
		if len(have) != want {
			continue // the second half of a change is still to come
		}
		if len(steps) == 0 {
			return
		}
		steps[0]()
		steps = steps[1:]
	}
	t.Errorf("%d steps were not seen; there are %d nodes, want %d", len(steps), len(have), len(c.View().Nodes))
}

func TestAReaderThatIsBehindGetsEverything(t *testing.T) {
	c := smallCluster(t, stopped)
	s := listen(t, web.Handler(c, web.Options{}))
	m := read[live](t, s.Config.Handler, "/api/v1/fleet")
	c.addNode(100, "general")
	for name, want := range map[string]struct {
		query url.Values
		full  bool
	}{
		"of this version":        {url.Values{"run": {m.Run}, "version": {fmt.Sprint(m.Version)}}, false},
		"of another process":     {url.Values{"run": {"other"}, "version": {fmt.Sprint(m.Version)}}, true},
		"of a version to come":   {url.Values{"run": {m.Run}, "version": {"1000"}}, true},
		"of a version too old":   {url.Values{"run": {m.Run}, "version": {"0"}}, false},
		"that says nothing else": {nil, true},
	} {
		for _, data := range follow(t, s.URL+"/api/v1/stream?"+want.query.Encode(), 1) {
			var got live
			if err := json.Unmarshal([]byte(data), &got); err != nil {
				t.Fatal(err)
			}
			if got.Full != want.full {
				t.Errorf("a reader %s got everything: %v, want %v", name, got.Full, want.full)
			}
		}
	}
}

func TestNothingIsKeptForNobody(t *testing.T) {
	now := stopped()
	c := smallCluster(t, func() time.Time { return now })
	s := web.Handler(c, web.Options{})
	server := listen(t, s)
	m := read[live](t, s, "/api/v1/fleet")
	now = now.Add(web.LetGo - time.Second)
	if kept := web.Tend(s); kept != len(m.Nodes) {
		t.Errorf("%d of %d nodes are kept, and somebody has read them a moment ago", kept, len(m.Nodes))
	}
	now = now.Add(time.Second)
	if kept := web.Tend(s); kept != 0 {
		t.Errorf("%d nodes are kept, and nobody asks for them", kept)
	}
	c.mirror.Drop(c.View().Nodes[1].Object)
	c.mirror.Drop(c.View().Claim(c.View().Nodes[1].World.Claim).Claim)
	query := url.Values{"run": {m.Run}, "version": {fmt.Sprint(m.Version)}}
	for _, data := range follow(t, server.URL+"/api/v1/stream?"+query.Encode(), 1) {
		var got live
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Fatal(err)
		}
		if !got.Full || len(got.Nodes) != len(c.View().Nodes) {
			t.Errorf("who comes back gets %d nodes, all there are: %v; there are %d", len(got.Nodes), got.Full, len(c.View().Nodes))
		}
	}
}

func TestCompression(t *testing.T) {
	s := listen(t, web.Handler(smallCluster(t, stopped), web.Options{}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/fleet", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil || !json.Valid(data) {
		t.Errorf("not JSON: %v", err)
	}
}
