package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// ledgerAPI answers from a ledger as the controller does.
func ledgerAPI(t *testing.T, l *ledger.Ledger) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/decisions", func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		q := ledger.Query{}
		for _, k := range v["kind"] {
			q.Kinds = append(q.Kinds, ledger.Kind(k))
		}
		q.Since, _ = strconv.ParseUint(v.Get("since"), 10, 64)
		q.Limit, _ = strconv.Atoi(v.Get("limit"))
		if about := strings.Split(v.Get("about"), "/"); len(about) == 3 {
			q.About = &ledger.Ref{Kind: about[0], Namespace: about[1], Name: about[2]}
		}
		_ = json.NewEncoder(w).Encode(ledger.NewDecisions(l.List(q), 0))
	})
	mux.HandleFunc("GET /api/v1/decisions/2", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(l.List(ledger.Query{Kinds: []ledger.Kind{ledger.Move}})[0].Document())
	})
	mux.HandleFunc("GET /api/v1/decisions/2/recording", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func someDecisions() *ledger.Ledger {
	l := ledger.New(10, "here", func() time.Time { return noon })
	pod := ledger.Ref{Kind: "Pod", Namespace: "shop", Name: "web-1"}
	l.Add(ledger.Entry{Kind: ledger.Plan, Summary: "1 pod gets a new m5.large", About: []ledger.Ref{pod}, Outcome: ledger.Done, Result: "1 claim"})
	l.Add(ledger.Entry{
		Kind: ledger.Move, Reason: "Underutilized", Summary: "node n1 is removed", Outcome: ledger.Open, Recorded: true,
		Why: []why.Reason{why.New(why.Chosen, "its pods fit on other nodes")}, Remove: []model.Node{{Node: "n1", Type: "m5.large", Pods: []string{"shop/web-1"}}},
	})
	return l
}

// decisionsOf runs the command.
func decisionsOf(ctx context.Context, args ...string) (string, error) {
	cmd := NewDecisions()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestDecisionsAreListed(t *testing.T) {
	at := "--controller=" + ledgerAPI(t, someDecisions())
	file := filepath.Join(t.TempDir(), "two.json")
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{nil, []string{"ID", "DECISION", "1 pod gets a new m5.large: 1 claim", "Underutilized", "Open", "node n1 is removed"}, ""},
		{[]string{"--kind", "move"}, []string{"node n1 is removed"}, "gets a new"},
		{[]string{"--about", "pod/web-1", "-n", "shop"}, []string{"gets a new"}, ""},
		{[]string{"--about", "pod/web-2", "-n", "shop"}, []string{"no decisions yet"}, "gets a new"},
		{[]string{"-o", "json", "--kind", "Plan"}, []string{`"decisions": [`, `"result": "1 claim"`}, "n1"},
		{[]string{"2"}, []string{"Move 2 of 2026", "Outcome: Open", "its pods fit on other nodes", "n1: m5.large, 1 pod", "karpenter decisions 2 --recording FILE"}, ""},
		{[]string{"2", "--recording", file}, []string{"is in " + file}, ""},
	} {
		out, err := decisionsOf(t.Context(), append(c.args, at)...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, out)
			}
		}
		if c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v: %q in\n%s", c.args, c.not, out)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
		t.Errorf("the recording is %q, %v", data, err)
	}
}

func TestDecisionsRefuseWhatMakesNoSense(t *testing.T) {
	for args, want := range map[string]string{
		"--kind Banana":       `--kind is "Banana"; give one of Plan, Refusal`,
		"--about web":         `--about is "web"; give pod/NAME`,
		"--limit 0":           "--limit is 0; give at least 1",
		"x":                   `"x" is no decision`,
		"--recording f":       "--recording needs the ID",
		"3 --follow":          "an ID names one decision",
		"-o xml":              `--output is "xml"; give table, json or yaml`,
		"--interval 1ms":      "--interval is 1ms; give at least 100ms",
		"--controller banana": `--controller is "banana"; give an address`,
	} {
		if _, err := decisionsOf(t.Context(), strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// followed is written to by a command that goes on, and read meanwhile.
type followed chan string

func (l followed) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// Following shows what comes, and an outcome when it is known, each once.
func TestDecisionsAreFollowed(t *testing.T) {
	l := someDecisions()
	ctx, stop := context.WithCancel(t.Context())
	cmd := NewDecisions()
	out := make(followed, 100)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--follow", "--interval", "100ms", "-o", "json", "--controller", ledgerAPI(t, l)})
	ended := make(chan error)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	next := func(want string) {
		t.Helper()
		select {
		case text := <-out:
			if !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing says %q", want)
		}
	}
	next("gets a new")
	next(`"outcome":"Open"`)
	l.Add(ledger.Entry{Kind: ledger.Launch, Summary: "claim a has an instance", Outcome: ledger.Done})
	next("claim a has an instance")
	l.Settle(2, ledger.Done, "deleted")
	next(`"result":"deleted"`)
	stop()
	if err := <-ended; err != nil || len(out) > 0 {
		t.Errorf("%v, and %d more lines", err, len(out))
	}
}
