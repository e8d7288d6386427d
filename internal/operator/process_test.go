package operator_test

import (
	"regexp"
	"strings"
	"testing"

	"karpenter/internal/cloud/aws"
	"karpenter/internal/meter"
)

func TestO56_ControllerServesAndEnds(t *testing.T) {
	c := startChild(t, []string{"AWS_ENDPOINT_URL=" + newAWS(t), "DISABLE_LEADER_ELECTION=true", "ENABLE_PROFILING=true", "INTERRUPTION_QUEUE=test"})
	c.get(c.health, "/readyz", ok)
	c.get(c.health, "/healthz", ok)
	c.get(c.metrics, "/debug/pprof/cmdline", ok)
	found := c.message("found the cluster")
	if found["cluster"] != "test" || found["version"] != "1.37" || found["level"] != "INFO" || found["logger"] != "controller" || found["commit"] == "" {
		t.Errorf("log line: %v", found)
	}
	if at, _ := found["time"].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) {
		t.Errorf("time %q is not in ISO 8601", at)
	}
	metrics := c.get(c.metrics, "/metrics", func(status int, body string) bool {
		return status == 200 && strings.Contains(body, "karpenter_cluster_state_synced 1")
	})
	for _, wanted := range []string{
		`karpenter_build_info{commit="`, `version="1.2.3"`, `karpenter_provisioner_scheduling_duration_seconds_count{result="error"} 0`,
		`aws_sdk_go_request_total{action="DescribeCluster",code="200",service="EKS"}`, `client_go_request_total{code="200",method="GET"}`,
		`client_go_request_duration_seconds_count{kind="nodepools",subresource="",verb="WATCH",version="v1"`,
		`controller_runtime_max_concurrent_reconciles{controller="nodepool.readiness"} 10`, "workqueue_depth{", "go_goroutines", "rest_client_requests_total",
	} {
		if !strings.Contains(metrics, wanted) && !strings.Contains(metrics, strings.ReplaceAll(wanted, `kind="nodepools",subresource="",`, `group="karpenter.sh",kind="nodepools",subresource="",`)) {
			t.Errorf("/metrics lacks %s", wanted)
		}
	}
	if strings.Contains(metrics, `cause="misuse"`) {
		t.Error("/metrics tells of calls that the table does not know")
	}
	for _, m := range meter.Table(aws.Meter()) {
		if len(m.Labels) == 0 && !strings.Contains(metrics, m.Full()) {
			t.Errorf("/metrics lacks %s", m.Full())
		}
	}
	c.stop()
	c.message("stopped")
}

func TestO74_BadSettingsStopTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		env, args []string
		want      []string
	}{
		"unknown flag": {args: []string{"--no-such-flag"}, want: []string{"unknown flag: --no-such-flag"}},
		"several": {
			env:  []string{"CLUSTER_NAME=", "BATCH_IDLE_DURATION=soon", "LOG_LEVEL=loud"},
			want: []string{`CLUSTER_NAME="": must be set to the name of the EKS cluster`, `BATCH_IDLE_DURATION="soon": must be a duration such as 1s`, `LOG_LEVEL="loud": must be debug, info or error`},
		},
		"N1 scheduler config": {
			args: []string{`--scheduler-config={"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"Never"}]}}`},
			want: []string{`--scheduler-config=`, `podTopologySpread.defaultConstraints[0]: whenUnsatisfiable "Never": must be DoNotSchedule or ScheduleAnyway`},
		},
		"N8 gate without the one that it needs": {env: []string{"FEATURE_GATES=TerminateFirstRepair=true"}, want: []string{"TerminateFirstRepair=true needs NodeRepair=true"}},
		"flag beats env":                        {args: []string{"--enable-profiling=yes"}, want: []string{`--enable-profiling="yes": must be true or false`}},
		"no region":                             {env: []string{"AWS_REGION="}, want: []string{`AWS_REGION="": must be set to the region`}},
		"no cluster":                            {env: []string{"KUBECONFIG="}, want: []string{"KUBECONFIG is not set"}},
		"bad kubeconfig":                        {env: []string{"KUBECONFIG=/dev/null/none"}, want: []string{`KUBECONFIG="/dev/null/none"`}},
	} {
		t.Run(name, func(t *testing.T) {
			child := startChild(t, c.env, c.args...)
			if code := child.wait(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, want := range c.want {
				if log := strings.Join(child.log(), "\n"); !strings.Contains(log, want) {
					t.Errorf("no line says %q:\n%s", want, log)
				}
			}
		})
	}
}

func TestO68_TakenPort(t *testing.T) {
	first := startChild(t, []string{"AWS_ENDPOINT_URL=" + newAWS(t), "DISABLE_LEADER_ELECTION=true"})
	first.get(first.health, "/healthz", ok)
	_, port, _ := strings.Cut(strings.Join(first.cmd.Env, " "), "METRICS_PORT=")
	port, _, _ = strings.Cut(port, " ")
	second := startChild(t, []string{"METRICS_PORT=" + port})
	if code := second.wait(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if log := strings.Join(second.log(), "\n"); !strings.Contains(log, "METRICS_PORT="+port) || !strings.Contains(log, "port that is free") {
		t.Errorf("the log does not name the port:\n%s", log)
	}
}

func TestO56_NotReadyWhileAWSIsAway(t *testing.T) {
	c := startChild(t, []string{"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_MAX_ATTEMPTS=1", "DISABLE_LEADER_ELECTION=true"})
	c.get(c.health, "/readyz", func(status int, body string) bool {
		return status == 503 && strings.Contains(body, "cloud: ") && strings.Contains(body, "EKS cluster test")
	})
	c.get(c.health, "/healthz", ok)
	c.stop()
}
