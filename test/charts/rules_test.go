package charts

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"karpenter/internal/meter"
)

// rules is a rule file of Prometheus.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for,omitempty"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"rules"`
	} `json:"groups"`
}

var (
	metricName = regexp.MustCompile(`\b(?:karpenter|operator|kube|aws_sdk_go|client_go|controller_runtime)_[a-z0-9_]+`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
	selector   = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring) ?\([^)]*\)`)
)

// foreign are metrics of others: kube-state-metrics.
var foreign = map[string]bool{"kube_node_status_condition": true}

// exported are the labels of everything that the controller serves, by the name that Prometheus stores it under.
func exported() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, m := range meter.Table() {
		labels := map[string]bool{}
		for _, label := range m.Labels {
			labels[label] = true
		}
		suffixes := []string{""}
		switch m.Kind {
		case meter.Histogram:
			suffixes = []string{"_bucket", "_count", "_sum"}
		case meter.Summary:
			suffixes = []string{"", "_count", "_sum"}
		}
		for _, suffix := range suffixes {
			all[m.Full()+suffix] = labels
		}
	}
	return all
}

func readRules(t *testing.T) rules {
	t.Helper()
	var file rules
	if err := yaml.UnmarshalStrict([]byte(read(t, at("deploy", "prometheus", "rules.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	metrics := exported()
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			expr := grouping.ReplaceAllString(quoted.ReplaceAllString(rule.Expr, `""`), "")
			found := 0
			for _, name := range metricName.FindAllString(expr, -1) {
				if strings.HasPrefix(name, "karpenter_sh_") { // a label
					continue
				}
				found++
				if metrics[name] == nil && !foreign[name] {
					t.Errorf("%s asks for %s, which nobody serves", rule.Alert, name)
				}
			}
			if found == 0 {
				t.Errorf("%s asks for no metric: %s", rule.Alert, rule.Expr)
			}
			for _, pick := range selector.FindAllStringSubmatch(expr, -1) {
				for _, label := range matcher.FindAllStringSubmatch(pick[2], -1) {
					if labels := metrics[pick[1]]; labels != nil && !labels[label[1]] {
						t.Errorf("%s: %s has no label %s", rule.Alert, pick[1], label[1])
					}
				}
			}
			if rule.Labels["severity"] == "" {
				t.Errorf("%s has no severity", rule.Alert)
			}
		}
	}
}

// The two alerts that a published walk-through gives its readers are there as they stand.
func TestThePublishedAlertsAreThere(t *testing.T) {
	published := map[string]string{
		"KarpenterProvisioningFailed": `increase(karpenter_provisioner_scheduling_duration_seconds_count{result="error"}[5m]) > 0`,
		"KarpenterNodeNotReady":       `karpenter_nodes_created_total - karpenter_nodes_terminated_total - count(kube_node_status_condition{condition="Ready",status="true"}) > 0`,
	}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			if want, ok := published[rule.Alert]; ok && group.Name == "karpenter" && rule.Expr == want && rule.Labels["severity"] == "warning" {
				delete(published, rule.Alert)
			}
		}
	}
	if len(published) > 0 {
		t.Errorf("missing or changed: %v", published)
	}
}

func TestAlertsByPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is missing; on Debian: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = at("deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
