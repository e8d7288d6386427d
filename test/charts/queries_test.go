package charts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"karpenter/internal/cloud/aws"
	"karpenter/internal/meter"
)

var (
	word     = regexp.MustCompile(`[a-z_][a-z0-9_]*`)
	quoted   = regexp.MustCompile(`"[^"]*"`)
	selector = regexp.MustCompile(`([a-z_][a-z0-9_]*)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right) ?\(([^)]*)\)`)
	window   = regexp.MustCompile(`\[[^\]]*\]`)
	series   = regexp.MustCompile(`^(?:karpenter|operator|kube|aws_sdk_go|client_go|controller_runtime|workqueue|leader_election|process|go)_`)
)

// foreign are metrics of others, with their labels: of kube-state-metrics, of controller-runtime and of the Go runtime.
var foreign = map[string]string{
	"kube_node_status_condition":                "condition status node",
	"controller_runtime_reconcile_errors_total": "controller",
	"workqueue_depth":                           "name controller priority",
	"leader_election_master_status":             "name",
	"process_cpu_seconds_total":                 "",
	"process_resident_memory_bytes":             "",
	"go_memstats_heap_inuse_bytes":              "",
}

// scraped are the labels that Prometheus adds to everything.
const scraped = "job instance namespace pod service"

// exported are the labels of everything that the controller serves, by the name that Prometheus stores it under.
func exported() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	add := func(name string, labels []string) {
		all[name] = map[string]bool{}
		for _, label := range append(labels, strings.Fields(scraped)...) {
			all[name][label] = true
		}
	}
	for _, m := range meter.Table(aws.Meter()) {
		switch m.Kind {
		case meter.Histogram:
			add(m.Full()+"_bucket", append(slices.Clone(m.Labels), "le"))
			add(m.Full()+"_count", slices.Clone(m.Labels))
			add(m.Full()+"_sum", slices.Clone(m.Labels))
		case meter.Summary:
			add(m.Full(), append(slices.Clone(m.Labels), "quantile"))
			add(m.Full()+"_count", slices.Clone(m.Labels))
			add(m.Full()+"_sum", slices.Clone(m.Labels))
		default:
			add(m.Full(), slices.Clone(m.Labels))
		}
	}
	for name, labels := range foreign {
		add(name, strings.Fields(labels))
	}
	return all
}

// wrong holds a query against what there is: it names metrics that nobody serves, and labels that they do not have.
func wrong(metrics map[string]map[string]bool, query string) []string {
	var problems []string
	bare := quoted.ReplaceAllString(query, `""`)
	labels := map[string]bool{}
	asked := 0
	for _, name := range word.FindAllString(selector.ReplaceAllString(grouping.ReplaceAllString(window.ReplaceAllString(bare, ""), ""), "$1"), -1) {
		if !series.MatchString(name) {
			continue
		}
		asked++
		if metrics[name] == nil {
			problems = append(problems, "nobody serves "+name)
		}
		for label := range metrics[name] {
			labels[label] = true
		}
	}
	if asked == 0 {
		problems = append(problems, "it asks for no metric")
	}
	for _, pick := range selector.FindAllStringSubmatch(bare, -1) {
		for _, label := range matcher.FindAllStringSubmatch(pick[2], -1) {
			if metrics[pick[1]] != nil && !metrics[pick[1]][label[1]] {
				problems = append(problems, fmt.Sprintf("%s has no label %s", pick[1], label[1]))
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(bare, -1) {
		for _, label := range word.FindAllString(group[2], -1) {
			if !labels[label] {
				problems = append(problems, fmt.Sprintf("%s (%s): none of its metrics has the label %s", group[1], group[2], label))
			}
		}
	}
	return problems
}

func TestQueriesAreHeldAgainstMetrics(t *testing.T) {
	metrics := exported()
	for query, want := range map[string]string{
		`sum by (nodepool) (rate(karpenter_nodeclaims_created_total{reason="x"}[5m]))`: "",
		`karpenter_nodeclaims_created_total{reasons="x"}`:                              "has no label reasons",
		`sum by (pool) (karpenter_nodeclaims_created_total)`:                           "has the label pool",
		`karpenter_nodeclaims_made_total`:                                              "nobody serves karpenter_nodeclaims_made_total",
		`rate(karpenter_scheduler_scheduling_duration_seconds[5m])`:                    "nobody serves karpenter_scheduler_scheduling_duration_seconds",
		`vector(1)`: "no metric",
		`label_values(karpenter_nodepools_usage, nodepool)`:                              "",
		`sum by (le) (rate(karpenter_scheduler_scheduling_duration_seconds_bucket[5m]))`: "",
	} {
		if got := strings.Join(wrong(metrics, query), "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

// dashboard is what is read of one.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(at("deploy", "grafana", "*.json"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID+".json" != filepath.Base(file) || d.Title == "" {
			t.Errorf("%s: uid %q, title %q", file, d.UID, d.Title)
		}
		all[d.UID] = d
	}
	return all
}

var legendLabel = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)

// Every query of every dashboard asks for metrics that there are, by labels that they have; legends name labels that are left.
func TestDashboardsAskForMetricsThatThereAre(t *testing.T) {
	metrics := exported()
	for uid, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				for _, problem := range wrong(metrics, strings.NewReplacer(", nodepool)", ")").Replace(v.Query)) {
					t.Errorf("%s: variable %s: %s", uid, v.Name, problem)
				}
			}
		}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || len(p.Targets) == 0 || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %d %q: %+v", uid, p.ID, p.Title, p)
			}
			ids[p.ID] = true
			for _, target := range p.Targets {
				for _, problem := range wrong(metrics, target.Expr) {
					t.Errorf("%s: %s: %s\n  %s", uid, p.Title, problem, target.Expr)
				}
				for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					grouped := slices.ContainsFunc(grouping.FindAllStringSubmatch(target.Expr, -1), func(g []string) bool { return slices.Contains(word.FindAllString(g[2], -1), label[1]) })
					if !grouped && strings.Contains(target.Expr, " by (") {
						t.Errorf("%s: %s: the legend names %s, which the query adds up", uid, p.Title, label[1])
					}
				}
			}
		}
	}
}

// asRules writes the queries of dashboards as recording rules, which Prometheus' own parser can check.
func asRules(t *testing.T) string {
	t.Helper()
	fill := strings.NewReplacer("$__rate_interval", "5m", "$nodepool", ".*")
	var rules []any
	for uid, d := range dashboards(t) {
		for _, p := range d.Panels {
			for i, target := range p.Targets {
				name := strings.ReplaceAll(uid, "-", "_") + fmt.Sprintf(":panel_%d:%d", p.ID, i)
				rules = append(rules, map[string]string{"record": name, "expr": fill.Replace(target.Expr)})
			}
		}
	}
	raw, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboards.yaml")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
