package operator

import (
	"errors"
	"strconv"

	"karpenter/cloud/plug"
	"karpenter/cloud/setting"
)

// Setting is one variable of the environment, which is also a flag.
type Setting = setting.Setting

// Settings lists the controller's own, and after them those of each provider. Providers may share one.
func Settings(providers ...plug.Plugin) []Setting {
	o := &Options{}
	all := o.settings(providers)
	for _, p := range providers {
		all = append(all, p.New().Settings(o.warn)...)
	}
	return all
}

// settings are the controller's own; each that is read changes o.
func (o *Options) settings(providers []plug.Plugin) []Setting {
	return append(o.coreSettings(), o.processSettings(providers)...)
}

func (o *Options) coreSettings() []Setting {
	return []Setting{
		{
			Env: "BATCH_MAX_DURATION", ID: "O60", Default: "10s", Help: "how long pods are gathered before planning, at most",
			Set: setting.Duration(&o.BatchMaxDuration, 0),
		},
		{
			Env: "BATCH_IDLE_DURATION", ID: "O60", Default: "1s", Help: "for how long no new pod must be pending for planning to begin",
			Set: setting.Duration(&o.BatchIdleDuration, 0),
		},
		{
			Env: "PREFERENCE_POLICY", ID: "O61", Default: string(PreferencesRespect), Help: "what is made of preferences of pods: Respect or Ignore",
			Set: setting.Choice(&o.PreferencePolicy, PreferencesRespect, PreferencesIgnore),
		},
		{
			Env: "MIN_VALUES_POLICY", ID: "O62", Default: string(MinValuesStrict), Help: "what happens when minValues cannot be had: Strict or BestEffort",
			Set: setting.Choice(&o.MinValuesPolicy, MinValuesStrict, MinValuesBestEffort),
		},
		setting.Gates(Setting{
			Env: "FEATURE_GATES", ID: "O63", Help: "features to turn on or off, as Name=true,Name=false; those not named keep their default, unknown ones are ignored",
		}, o.warn, o.Gates.list()...),
		{
			Env: "LEGACY_NODE_REPAIR", ID: "N6", Default: "false", Bool: true, Help: "with the feature NodeRepair, replace unhealthy nodes as releases before 1.15 did: at once, without waiting for a replacement and without budgets",
			Set: setting.Bool(&o.LegacyNodeRepair),
		},
		{
			Env: "IGNORE_DRA_REQUESTS", ID: "O64", Default: "true", Bool: true, Help: "leave pods with dynamic resource claims alone",
			Set: setting.Bool(&o.IgnoreDRARequests),
		},
		{
			Env: "NOMINATE_PODS", ID: "ours", Default: "true", Bool: true, Help: "nominate pods for the nodes that they were planned for, so that kube-scheduler tries these first; needs Kubernetes 1.35 or later",
			Set: setting.Bool(&o.NominatePods),
		},
		{
			Env: "INITIALIZATION_TIMEOUT", ID: "ours", Default: "30m", Help: "how long a node that has joined may take to become usable before it is replaced; 0 is for ever",
			Set: setting.DurationOrNone(&o.InitializationTimeout),
		},
		{
			Env: "SCHEDULER_CONFIG", ID: "O65", Help: "spread constraints for pods without any, as YAML or JSON: podTopologySpread.defaultConstraints",
			Set: o.setSchedulerConfig,
		},
		{
			Env: "CPU_REQUESTS", ID: "O66", Default: "1000", Help: "CPU that the container requests, in thousandths of a core; scales the number of workers",
			Set: o.setCPURequests,
		},
		{
			Env: "MEMORY_LIMIT", ID: "O66", Default: "-1", Help: "memory limit of the container in bytes; 90 % of it is the garbage collector's goal; -1 is none",
			Set: o.setMemoryLimit,
		},
		{
			Env: "KUBE_CLIENT_QPS", ID: "O67", Default: "200", Help: "requests to the API server per second",
			Set: setting.Integer(&o.KubeClientQPS, 1, 1_000_000),
		},
		{
			Env: "KUBE_CLIENT_BURST", ID: "O67", Default: "300", Help: "requests to the API server at once",
			Set: setting.Integer(&o.KubeClientBurst, 1, 1_000_000),
		},
		{
			Env: "DISABLE_LEADER_ELECTION", ID: "O69", Default: "false", Bool: true, Help: "act without holding the lease; for a single replica only",
			Set: setting.Bool(&o.DisableLeaderElection),
		},
		{
			Env: "LEADER_ELECTION_NAME", ID: "O69", Default: "karpenter-leader-election", Help: "name of the lease",
			Set: setting.Text(&o.LeaderElectionName, setting.Required("the name of a Lease")),
		},
		{
			Env: "LEADER_ELECTION_NAMESPACE", ID: "O69", Help: "namespace of the lease; SYSTEM_NAMESPACE if empty",
			Set: setting.Text(&o.LeaderElectionNamespace),
		},
		{
			Env: "DISABLE_CONTROLLER_WARMUP", ID: "O70", Default: "true", Bool: true, Help: "fill controllers' queues only once this replica leads",
			Set: setting.Bool(&o.DisableControllerWarmup),
		},
		{
			Env: "DISABLE_CLUSTER_STATE_OBSERVABILITY", ID: "O71", Default: "false", Bool: true, Help: "no metrics by pod, node and pool, no metrics and events of conditions",
			Set: setting.Bool(&o.DisableClusterStateObservability),
		},
	}
}

func (o *Options) processSettings(providers []plug.Plugin) []Setting {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.Name
	}
	return []Setting{
		{
			Env: "PROVIDER", ID: "ours", Default: names[0], Help: "who makes nodes: " + setting.OneOf(names),
			Set: setting.Choice(&o.Provider, names...),
		},
		{
			Env: "METRICS_PORT", ID: "O68", Default: "8080", Help: "port of /metrics",
			Set: setting.Integer(&o.MetricsPort, 1, 65535),
		},
		{
			Env: "HEALTH_PROBE_PORT", ID: "O68", Default: "8081", Help: "port of /healthz and /readyz",
			Set: setting.Integer(&o.HealthProbePort, 1, 65535),
		},
		{
			Env: "ENABLE_PROFILING", ID: "O68", Default: "false", Bool: true, Help: "serve /debug/pprof on the port of /metrics",
			Set: setting.Bool(&o.EnableProfiling),
		},
		{
			Env: "DECISION_API", ID: "ours", Default: "true", Bool: true, Help: "serve decisions, reasons and recordings as JSON under /api/v1 on the port of /metrics",
			Set: setting.Bool(&o.DecisionAPI),
		},
		{
			Env: "DASHBOARD_ADDRESS", ID: "ours", Help: "address of the dashboard, such as 127.0.0.1:8082 or :8082; none if empty. Unless it is a loopback address, every request needs a token that may get /karpenter/api/v1/*",
			Set: setting.Text(&o.DashboardAddress, setting.ListenAddress),
		},
		{
			Env: "LEDGER_DIR", ID: "ours", Help: "folder on a volume that decisions are kept in, at most 128 MiB; in memory only if empty",
			Set: setting.Text(&o.LedgerDir),
		},
		{
			Env: "LOG_LEVEL", ID: "O72", Default: "info", Help: "what is logged: debug, info or error",
			Set: setting.Choice(&o.LogLevel, "debug", "info", "error"),
		},
		{
			Env: "LOG_ENCODING", ID: "O55", Default: "json", Help: "form of log lines: json, or console for reading without tools",
			Set: setting.Choice(&o.LogEncoding, "json", "console"),
		},
		{
			Env: "LOG_OUTPUT_PATHS", ID: "O72", Default: "stdout", Help: "where logs go: stdout, stderr or files, separated by commas",
			Set: setting.Paths(&o.LogOutputPaths),
		},
		{
			Env: "LOG_ERROR_OUTPUT_PATHS", ID: "O72", Default: "stderr", Help: "where it is said that logs cannot be written",
			Set: setting.Paths(&o.LogErrorOutputPaths),
		},
		{
			Env: "KARPENTER_SERVICE", ID: "O73", Help: "Service in front of this process, by which the API server reaches the conversion webhook; without it there is none",
			Set: setting.Text(&o.KarpenterService),
		},
		{
			Env: "SYSTEM_NAMESPACE", ID: "O69", Help: "namespace that this process runs in",
			Set: setting.Text(&o.SystemNamespace),
		},
		{
			Env: "DISABLE_WEBHOOK", ID: "A1", Default: "false", Bool: true, Help: "do not serve v1beta1 of NodePool, NodeClaim and the node class",
			Set: setting.Bool(&o.DisableWebhook),
		},
		{
			Env: "WEBHOOK_PORT", ID: "A1", Default: "8443", Help: "port of the conversion webhook",
			Set: setting.Integer(&o.WebhookPort, 1, 65535),
		},
		{
			Env: "WEBHOOK_SERVICE_PORT", ID: "ours", Default: "0", Help: "port of the Service that leads to the conversion webhook; that of the webhook if 0",
			Set: setting.Integer(&o.WebhookServicePort, 0, 65535),
		},
	}
}

func (o *Options) setCPURequests(v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return errors.New("must be a whole number of thousandths of a core, such as 1000")
	}
	if n <= 0 { // the container requests none
		n = 1000
	}
	o.CPURequests = n
	return nil
}

func (o *Options) setMemoryLimit(v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return errors.New("must be a whole number of bytes, or -1 for none")
	}
	o.MemoryLimitBytes = n
	return nil
}
