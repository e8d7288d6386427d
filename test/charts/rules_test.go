package charts

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rules is a rule file of Prometheus.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert,omitempty"`
			Record      string            `json:"record,omitempty"`
			Expr        string            `json:"expr"`
			For         string            `json:"for,omitempty"`
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"rules"`
	} `json:"groups"`
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
	recorded := map[string]string{}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			for name, expr := range recorded {
				rule.Expr = strings.ReplaceAll(rule.Expr, name, "("+expr+")")
			}
			if rule.Record != "" {
				recorded[rule.Record] = rule.Expr
			}
			for _, problem := range wrong(metrics, rule.Expr) {
				t.Errorf("%s%s: %s\n  %s", rule.Alert, rule.Record, problem, rule.Expr)
			}
			if rule.Alert != "" && rule.Labels["severity"] == "" {
				t.Errorf("%s has no severity", rule.Alert)
			}
		}
	}
}

// The alerts that a published walk-through gives its readers are there by their names; the one that can fire as it stands is there as
// it stands. That the other fires is tested by promtool.
func TestThePublishedAlertsAreThere(t *testing.T) {
	published := map[string]string{
		"KarpenterProvisioningFailed": `increase(karpenter_provisioner_scheduling_duration_seconds_count{result="error"}[5m]) > 0`,
		"KarpenterNodeNotReady":       "",
	}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			if want, ok := published[rule.Alert]; ok && group.Name == "karpenter" && (want == "" || rule.Expr == want) && rule.Labels["severity"] == "warning" {
				delete(published, rule.Alert)
			}
		}
	}
	if len(published) > 0 {
		t.Errorf("missing or changed: %v", published)
	}
}

// requirePromtool, when set in the environment, turns the lack of promtool from a skipped test into a failed one. The make target
// sets it.
const requirePromtool = "KARPENTER_TEST_PROMTOOL"

// Prometheus' own tool parses and tests the alerts, and parses the queries of the dashboards.
func TestByPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv(requirePromtool) != "" {
			t.Fatal("promtool is missing; on Debian: apt-get install prometheus")
		}
		t.Skip("promtool is missing; on Debian: apt-get install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}, {"check", "rules", asRules(t)}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = at("deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
