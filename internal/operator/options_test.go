package operator

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/cloud/plug"
	"karpenter/cloud/setting"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/aws/awsplug"
	"karpenter/internal/clouds"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
)

var update = flag.Bool("update", false, "rewrite docs/reference/flags.md")

func parse(env, flags map[string]string) (*Options, error) {
	all := map[string]string{"CLUSTER_NAME": "c", "SYSTEM_NAMESPACE": "kube-system"}
	for name, value := range env {
		all[name] = value
	}
	return ParseOptions(Source{Flags: flags, Getenv: func(name string) string { return all[name] }}, clouds.Plugins()...)
}

func TestO60_O73_Defaults(t *testing.T) {
	got, err := parse(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Options{
		BatchMaxDuration: 10 * time.Second, BatchIdleDuration: time.Second, InitializationTimeout: 30 * time.Minute, PreferencePolicy: "Respect", MinValuesPolicy: "Strict",
		Gates: Gates{ReservedCapacity: true, StaticCapacity: true, CapacityBuffer: true}, IgnoreDRARequests: true, NominatePods: true, CPURequests: 1000, MemoryLimitBytes: -1, KubeClientQPS: 200, KubeClientBurst: 300,
		MetricsPort: 8080, HealthProbePort: 8081, DecisionAPI: true, LeaderElectionName: "karpenter-leader-election", DisableControllerWarmup: true,
		LogLevel: "info", LogEncoding: "json", LogOutputPaths: []string{"stdout"}, LogErrorOutputPaths: []string{"stderr"}, SystemNamespace: "kube-system",
		WebhookPort: 8443, Provider: "aws",
	}
	wantOwn := awsplug.Options{ClusterName: "c", VMMemoryOverheadPercent: 0.075, AMIRefreshInterval: time.Minute, SubnetRefreshInterval: time.Minute, SecurityGroupRefreshInterval: time.Minute}
	if diff := cmp.Diff(wantOwn, got.Cloud.(*awsplug.Cloud).Options); diff != "" {
		t.Errorf("defaults of the provider (-want +got):\n%s", diff)
	}
	if got.Kind.GroupKind() != awsv1.EC2NodeClassGroupKind {
		t.Errorf("the kind of node class is %v", got.Kind.GroupKind())
	}
	got.Cloud, got.Kind, got.Meter = nil, cloud.Kind{}, meter.Cloud{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestO74_FlagBeatsEnvBeatsDefault(t *testing.T) {
	for _, c := range []struct {
		env, flag string
		want      time.Duration
	}{{"", "", time.Second}, {"3s", "", 3 * time.Second}, {"3s", "4s", 4 * time.Second}, {"", "4s", 4 * time.Second}} {
		flags := map[string]string{}
		if c.flag != "" {
			flags["batch-idle-duration"] = c.flag
		}
		got, err := parse(map[string]string{"BATCH_IDLE_DURATION": c.env}, flags)
		if err != nil || got.BatchIdleDuration != c.want {
			t.Errorf("env %q, flag %q: got %v, %v; want %v", c.env, c.flag, got, err, c.want)
		}
	}
}

// B1: how long nodes may take to become usable is a setting, which claims are judged by.
func TestB1_InitializationTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 30 * time.Minute, "45m": 45 * time.Minute, "0": 0, "0s": 0} {
		o, err := parse(map[string]string{"INITIALIZATION_TIMEOUT": value}, nil)
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		wanted := life.DefaultLimits
		wanted.Initialize = want
		if got := (&wiring{process: &process{options: o}, cloud: &plug.Wired{}}).limits(); got != wanted {
			t.Errorf("%q: claims are judged by %+v, want %+v", value, got, wanted)
		}
	}
}

func TestO74_WrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ env, value, want string }{
		{"CLUSTER_NAME", "", `CLUSTER_NAME="": must be set to the name of the EKS cluster`},
		{"BATCH_MAX_DURATION", "10", `BATCH_MAX_DURATION="10": must be a duration`},
		{"BATCH_MAX_DURATION", "-1s", `BATCH_MAX_DURATION="-1s": must be at least`},
		{"INITIALIZATION_TIMEOUT", "-1m", `INITIALIZATION_TIMEOUT="-1m": must be a duration such as 30m or 1h, or 0`},
		{"PREFERENCE_POLICY", "respect", `PREFERENCE_POLICY="respect": must be Respect or Ignore`},
		{"MIN_VALUES_POLICY", "x", `MIN_VALUES_POLICY="x": must be Strict or BestEffort`},
		{"FEATURE_GATES", "NodeRepair", `FEATURE_GATES="NodeRepair": "NodeRepair": must be a list such as NodeRepair=true`},
		{"FEATURE_GATES", "TerminateFirstRepair=true", "TerminateFirstRepair=true needs NodeRepair=true"},
		{"FEATURE_GATES", "NodeRepair=on", `must be a list such as NodeRepair=true`},
		{"IGNORE_DRA_REQUESTS", "1", `IGNORE_DRA_REQUESTS="1": must be true or false`},
		{"ISOLATED_VPC", "True", `ISOLATED_VPC="True": must be true or false`},
		{"SCHEDULER_CONFIG", "podTopologySpread: {defaultConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}", "defaultConstraints[0]: maxSkew 0: must be 1 or more"},
		{"SCHEDULER_CONFIG", "podTopologySpread: {defaults: []}", `unknown field "defaults"`},
		{"SCHEDULER_CONFIG", "podTopologySpread: []", "must be YAML or JSON with podTopologySpread.defaultConstraints, such as {"},
		{"SCHEDULER_CONFIG", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway","minDomains":2}]}}`, "defaultConstraints[0]: minDomains 2: must be left out unless"},
		{"SCHEDULER_CONFIG", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule","nodeTaintsPolicy":"Maybe"}]}}`, `nodeTaintsPolicy "Maybe": must be Honor or Ignore`},
		{"SCHEDULER_CONFIG", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"},{"maxSkew":2,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"}]}}`, "defaultConstraints[1]: another has topologyKey a"},
		{"SCHEDULER_CONFIG", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"a b","whenUnsatisfiable":"DoNotSchedule"}]}}`, `topologyKey "a b"`},
		{"SCHEDULER_CONFIG", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"Never"}]}}`, `whenUnsatisfiable "Never"`},
		{"SCHEDULER_CONFIG", `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}}]}}`, "labelSelector"},
		{"CPU_REQUESTS", "1.5", `CPU_REQUESTS="1.5": must be a whole number`},
		{"MEMORY_LIMIT", "1Gi", `MEMORY_LIMIT="1Gi": must be a whole number of bytes`},
		{"KUBE_CLIENT_QPS", "0", `KUBE_CLIENT_QPS="0": must be a whole number from 1`},
		{"DASHBOARD_ADDRESS", "8082", `DASHBOARD_ADDRESS="8082": must be an address with a port, such as 127.0.0.1:8082 or :8082`},
		{"DASHBOARD_ADDRESS", ":0", "must be an address with a port"},
		{"DECISION_API", "yes", `DECISION_API="yes": must be true or false`},
		{"METRICS_PORT", "70000", `METRICS_PORT="70000": must be a whole number from 1 to 65535`},
		{"METRICS_PORT", "8081", "METRICS_PORT=8081 and HEALTH_PROBE_PORT=8081 are the same port"},
		{"LOG_LEVEL", "warning", `LOG_LEVEL="warning": must be debug, info or error`},
		{"LOG_OUTPUT_PATHS", "stdout,,", `LOG_OUTPUT_PATHS="stdout,,": must be stdout, stderr or names of files`},
		{"SYSTEM_NAMESPACE", "", "LEADER_ELECTION_NAMESPACE and SYSTEM_NAMESPACE are empty"},
		{"BATCH_IDLE_DURATION", "11s", "BATCH_IDLE_DURATION=11s is longer than BATCH_MAX_DURATION=10s"},
		{"CLUSTER_ENDPOINT", "eks.example.com", `CLUSTER_ENDPOINT="eks.example.com": must be a URL with scheme and host`},
		{"CLUSTER_CA_BUNDLE", "bm90IGEgY2VydA==", "must be certificates in PEM form, encoded in base64"},
		{"VM_MEMORY_OVERHEAD_PERCENT", "-0.1", "must be a share from 0 to less than 1"},
		{"VM_MEMORY_OVERHEAD_PERCENT", "7.5", "must be a share from 0 to less than 1"},
		{"VM_MEMORY_OVERHEAD_PERCENT", "NaN", "must be a share from 0 to less than 1"},
		{"RESERVED_ENIS", "-1", `RESERVED_ENIS="-1": must be a whole number from 0`},
		{"AMI_REFRESH_INTERVAL", "30s", `AMI_REFRESH_INTERVAL="30s": must be at least 1m0s`},
		{"SUBNET_REFRESH_INTERVAL", "1", `SUBNET_REFRESH_INTERVAL="1": must be a duration`},
		{"SECURITY_GROUP_REFRESH_INTERVAL", "30s", `SECURITY_GROUP_REFRESH_INTERVAL="30s": must be at least 1m0s`},
		{"AWS_FEATURE_GATES", "a", "must be a list such as NodeClassCEL=true"},
	} {
		if _, err := parse(map[string]string{c.env: c.value}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %v, want %s", c.env, c.value, err, c.want)
		}
	}
	// All are named at once.
	_, err := parse(map[string]string{"LOG_LEVEL": "x", "METRICS_PORT": "x"}, map[string]string{"isolated-vpc": "x"})
	for _, want := range []string{"LOG_LEVEL", "METRICS_PORT", `--isolated-vpc="x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

// A provider that there is not, and a flag of one that is not chosen, are refused with what there is.
func TestProviders(t *testing.T) {
	if _, err := parse(map[string]string{"PROVIDER": "azure"}, nil); err == nil || !strings.Contains(err.Error(), `PROVIDER="azure": must be aws`) {
		t.Errorf("got %v", err)
	}
	from := Source{Flags: map[string]string{"provider": "paper", "isolated-vpc": "true", "cluster-name": "c"}, Getenv: func(string) string { return "" }}
	from.Flags["disable-leader-election"] = "true"
	_, err := ParseOptions(from, append(clouds.Plugins(), plug.Plugin{Name: "paper", New: func() plug.Cloud { return &paper{} }})...)
	if err == nil || err.Error() != "--isolated-vpc is a setting of provider aws, and PROVIDER is paper: leave it out, or set PROVIDER=aws" {
		t.Errorf("got %v", err)
	}
	delete(from.Flags, "isolated-vpc")
	o, err := ParseOptions(from, append(clouds.Plugins(), plug.Plugin{Name: "paper", New: func() plug.Cloud { return &paper{} }})...)
	if err != nil || o.Cloud.(*paper).name != "c" {
		t.Errorf("got %+v, %v", o, err)
	}
	flags := NewCommand("1", append(clouds.Plugins(), plug.Plugin{Name: "paper", New: func() plug.Cloud { return &paper{} }})...).Flags()
	if flags.Lookup("cluster-name") == nil || flags.Lookup("sheets") == nil || !strings.Contains(flags.Lookup("provider").Usage, "or paper") {
		t.Error("the command lacks flags of a provider")
	}
}

// paper is a provider that has settings and nothing else.
type paper struct {
	plug.Cloud
	name   string
	sheets bool
}

func (p *paper) Settings(func(string)) []Setting {
	return []Setting{{Env: "CLUSTER_NAME", Set: setting.Text(&p.name)}, {Env: "SHEETS", Default: "false", Set: setting.Bool(&p.sheets)}}
}

func TestO63_Gates(t *testing.T) {
	got, err := parse(map[string]string{"FEATURE_GATES": " NodeRepair=true, ReservedCapacity=false,Flying=true,NodeOverlay=true", "AWS_FEATURE_GATES": "Other=true,NodeClassCEL=true,DRANVIDIAGPU=true,DRAEFA=false"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Gates{NodeRepair: true, NodeOverlay: true, StaticCapacity: true, CapacityBuffer: true}, got.Gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(awsplug.Gates{NodeClassCEL: true, DRANVIDIAGPU: true}, got.Cloud.(*awsplug.Cloud).Gates); diff != "" {
		t.Errorf("AWS gates (-want +got):\n%s", diff)
	}
	want := []string{
		"FEATURE_GATES: there is no feature Flying; it is ignored. Features are NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer, PodDeletionCostManagement, TerminateFirstDrift, TerminateFirstRepair",
		"AWS_FEATURE_GATES: there is no feature Other; it is ignored. Features are NodeClassCEL, DRANVIDIAGPU, DRAEFA, RebootForRepair",
		"AWS_FEATURE_GATES: DRANVIDIAGPU is not part of this version; it has no effect",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if got, _ := parse(map[string]string{"FEATURE_GATES": "NodeRepair=true"}, nil); !got.Gates.ReservedCapacity {
		t.Error("a gate that is not named has lost its default")
	}
}

// A set of repair policies that is wrong ends the start, and so does a pattern that does not compile; that of AWS is right.
func TestN6_WrongRepairPoliciesEndTheStart(t *testing.T) {
	for _, reboot := range []bool{false, true} {
		if list, err := checkedPolicies("aws", aws.RepairPolicies(reboot)); err != nil || len(list) < 9 {
			t.Errorf("%d policies, %v", len(list), err)
		}
	}
	for want, change := range map[string]func([]cloud.RepairPolicy) []cloud.RepairPolicy{
		"repair policies of provider aws: repair policy 2 (AcceleratedHardwareReady=False): reasonRegex: error parsing regexp": func(l []cloud.RepairPolicy) []cloud.RepairPolicy {
			l[2].ReasonRegex = "^NvidiaXID("
			return l
		},
		"repair policies of provider aws: repair policy 2 (AcceleratedHardwareReady=False): reasonRegex: no policy of this condition is for all other reasons": func(l []cloud.RepairPolicy) []cloud.RepairPolicy {
			return slices.Delete(l, 4, 5)
		},
	} {
		if _, err := checkedPolicies("aws", change(aws.RepairPolicies(true))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestO58_O66_Limits(t *testing.T) {
	for cpu, want := range map[int64]int{100: 10, 1000: 10, 30500: 505, 60000: 1000, 90000: 1000} {
		if got := workers(cpu); got != want {
			t.Errorf("workers(%d) = %d, want %d", cpu, got, want)
		}
	}
	if got, err := parse(map[string]string{"CPU_REQUESTS": "0"}, nil); err != nil || got.CPURequests != 1000 {
		t.Errorf("CPU_REQUESTS=0: got %v, %v; want 1000", got, err)
	}
}

// Whoever sets GOGC has decided how hard the garbage collector works.
func TestGOGCIsLeftAlone(t *testing.T) {
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	for gogc, want := range map[string]int{"70": 70, "": garbageMost} {
		t.Setenv("GOGC", gogc)
		limitMemory(0, true)
		if got := debug.SetGCPercent(70); got != want {
			t.Errorf("GOGC=%s: %d %% of garbage, want %d", gogc, got, want)
		}
	}
}

func TestMemoryIsGivenBackOnceItIsCalm(t *testing.T) {
	tidier := &tidier{}
	for i, look := range []struct {
		allocated uint64 // since the look before
		want      bool
	}{
		{100 << 20, false}, // at work
		{1 << 20, false},
		{200 << 20, false},
		{1 << 20, false},
		{1 << 20, false},
		{1 << 20, true}, // calm
		{1 << 20, false},
		{littered - 5<<20, false}, // at work, a little
		{1 << 20, false},
		{1 << 20, false},
		{1 << 20, false},
		{1 << 20, true},
	} {
		if got := tidier.due(tidier.allocated + look.allocated); got != look.want {
			t.Errorf("look %d: %t, want %t", i, got, look.want)
		}
	}
}

func TestA1_WebhookNeedsAService(t *testing.T) {
	for _, c := range []struct {
		service, disabled string
		want              bool
	}{{"", "false", false}, {"karpenter", "false", true}, {"karpenter", "true", false}} {
		got, err := parse(map[string]string{"KARPENTER_SERVICE": c.service, "DISABLE_WEBHOOK": c.disabled}, nil)
		if err != nil || got.webhook() != c.want {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
}

// TestFlagsPage keeps docs/reference/flags.md what the settings say.
func TestFlagsPage(t *testing.T) {
	const path = "../../docs/reference/flags.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "<!-- made by go test ./internal/operator -run Page -update -->\n"
	head, _, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("%s has no line %q", path, begin)
	}
	var b strings.Builder
	table := func(list []Setting) {
		b.WriteString("| variable | flag | default | meaning |\n| --- | --- | --- | --- |\n")
		for _, s := range list {
			value := ""
			if s.Default != "" {
				value = "`" + s.Default + "`"
			}
			fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", s.Env, s.Flag(), strings.ReplaceAll(value, ",", ", "), s.Help)
		}
	}
	table((&Options{}).settings(clouds.Plugins()))
	for _, p := range clouds.Plugins() {
		fmt.Fprintf(&b, "\n## With `PROVIDER=%s`\n\n", p.Name)
		table(p.New().Settings(func(string) {}))
	}
	want := head + begin + b.String()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("%s is out of date, run go test ./internal/operator -run Page -update (-want +got):\n%s", path, diff)
	}
}

func TestGarbageIsAFixedAmountOfASmallProcessAndAShareOfALargeOne(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 20 << 20: 100, 64 << 20: 50, 90 << 20: 35, 4 << 30: 30} {
		if got := garbageAtWork(live); got != want {
			t.Errorf("%d MB in use: %d %%, want %d", live>>20, got, want)
		}
	}
}
