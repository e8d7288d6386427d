package operator

import "strings"

// Setting is one variable of the environment, which is also a flag.
type Setting struct {
	// Env is the variable's name; ID the feature that asks for it.
	Env, ID, Default, Help string
	// Bool settings may be given as a flag without a value.
	Bool bool
	set  func(*Options, string) error
}

// Flag is the setting's name as a flag, without dashes in front.
func (s Setting) Flag() string { return strings.ReplaceAll(strings.ToLower(s.Env), "_", "-") }

// Settings lists them all.
func Settings() []Setting {
	return append(append(coreSettings(), processSettings()...), awsSettings()...)
}

func coreSettings() []Setting {
	return []Setting{
		{
			Env: "BATCH_MAX_DURATION", ID: "O60", Default: "10s", Help: "how long pods are gathered before planning, at most",
			set: duration(0, func(o *Options) pDuration { return &o.BatchMaxDuration }),
		},
		{
			Env: "BATCH_IDLE_DURATION", ID: "O60", Default: "1s", Help: "for how long no new pod must be pending for planning to begin",
			set: duration(0, func(o *Options) pDuration { return &o.BatchIdleDuration }),
		},
		{
			Env: "PREFERENCE_POLICY", ID: "O61", Default: string(PreferencesRespect), Help: "what is made of preferences of pods: Respect or Ignore",
			set: choice(func(o *Options, v string) { o.PreferencePolicy = PreferencePolicy(v) }, string(PreferencesRespect), string(PreferencesIgnore)),
		},
		{
			Env: "MIN_VALUES_POLICY", ID: "O62", Default: string(MinValuesStrict), Help: "what happens when minValues cannot be had: Strict or BestEffort",
			set: choice(func(o *Options, v string) { o.MinValuesPolicy = MinValuesPolicy(v) }, string(MinValuesStrict), string(MinValuesBestEffort)),
		},
		{
			Env: "FEATURE_GATES", ID: "O63", Default: gatesDefault(gates()), Help: "features to turn on or off, as Name=true,Name=false; those not named keep their default, unknown ones are ignored",
			set: setGates,
		},
		{
			Env: "LEGACY_NODE_REPAIR", ID: "N6", Default: "false", Bool: true, Help: "with the feature NodeRepair, replace unhealthy nodes as releases before 1.15 did: at once, without waiting for a replacement and without budgets",
			set: boolean(func(o *Options) *bool { return &o.LegacyNodeRepair }),
		},
		{
			Env: "IGNORE_DRA_REQUESTS", ID: "O64", Default: "true", Bool: true, Help: "leave pods with dynamic resource claims alone",
			set: boolean(func(o *Options) *bool { return &o.IgnoreDRARequests }),
		},
		{
			Env: "NOMINATE_PODS", ID: "ours", Default: "true", Bool: true, Help: "nominate pods for the nodes that they were planned for, so that kube-scheduler tries these first; needs Kubernetes 1.35 or later",
			set: boolean(func(o *Options) *bool { return &o.NominatePods }),
		},
		{
			Env: "INITIALIZATION_TIMEOUT", ID: "ours", Default: "30m", Help: "how long a node that has joined may take to become usable before it is replaced; 0 is for ever",
			set: durationOrNone(func(o *Options) pDuration { return &o.InitializationTimeout }),
		},
		{
			Env: "SCHEDULER_CONFIG", ID: "O65", Help: "spread constraints for pods without any, as YAML or JSON: podTopologySpread.defaultConstraints",
			set: setSchedulerConfig,
		},
		{
			Env: "CPU_REQUESTS", ID: "O66", Default: "1000", Help: "CPU that the container requests, in thousandths of a core; scales the number of workers",
			set: setCPURequests,
		},
		{
			Env: "MEMORY_LIMIT", ID: "O66", Default: "-1", Help: "memory limit of the container in bytes; 90 % of it is the garbage collector's goal; -1 is none",
			set: setMemoryLimit,
		},
		{
			Env: "KUBE_CLIENT_QPS", ID: "O67", Default: "200", Help: "requests to the API server per second",
			set: integer(1, 1_000_000, func(o *Options, v int64) { o.KubeClientQPS = int(v) }),
		},
		{
			Env: "KUBE_CLIENT_BURST", ID: "O67", Default: "300", Help: "requests to the API server at once",
			set: integer(1, 1_000_000, func(o *Options, v int64) { o.KubeClientBurst = int(v) }),
		},
		{
			Env: "DISABLE_LEADER_ELECTION", ID: "O69", Default: "false", Bool: true, Help: "act without holding the lease; for a single replica only",
			set: boolean(func(o *Options) *bool { return &o.DisableLeaderElection }),
		},
		{
			Env: "LEADER_ELECTION_NAME", ID: "O69", Default: "karpenter-leader-election", Help: "name of the lease",
			set: text(func(o *Options) *string { return &o.LeaderElectionName }, required("the name of a Lease")),
		},
		{
			Env: "LEADER_ELECTION_NAMESPACE", ID: "O69", Help: "namespace of the lease; SYSTEM_NAMESPACE if empty",
			set: text(func(o *Options) *string { return &o.LeaderElectionNamespace }),
		},
		{
			Env: "DISABLE_CONTROLLER_WARMUP", ID: "O70", Default: "true", Bool: true, Help: "fill controllers' queues only once this replica leads",
			set: boolean(func(o *Options) *bool { return &o.DisableControllerWarmup }),
		},
		{
			Env: "DISABLE_CLUSTER_STATE_OBSERVABILITY", ID: "O71", Default: "false", Bool: true, Help: "no metrics by pod, node and pool, no metrics and events of conditions",
			set: boolean(func(o *Options) *bool { return &o.DisableClusterStateObservability }),
		},
	}
}

func processSettings() []Setting {
	return []Setting{
		{
			Env: "METRICS_PORT", ID: "O68", Default: "8080", Help: "port of /metrics",
			set: integer(1, 65535, func(o *Options, v int64) { o.MetricsPort = int(v) }),
		},
		{
			Env: "HEALTH_PROBE_PORT", ID: "O68", Default: "8081", Help: "port of /healthz and /readyz",
			set: integer(1, 65535, func(o *Options, v int64) { o.HealthProbePort = int(v) }),
		},
		{
			Env: "ENABLE_PROFILING", ID: "O68", Default: "false", Bool: true, Help: "serve /debug/pprof on the port of /metrics",
			set: boolean(func(o *Options) *bool { return &o.EnableProfiling }),
		},
		{
			Env: "DECISION_API", ID: "ours", Default: "true", Bool: true, Help: "serve decisions, reasons and recordings as JSON under /api/v1 on the port of /metrics",
			set: boolean(func(o *Options) *bool { return &o.DecisionAPI }),
		},
		{
			Env: "DASHBOARD_ADDRESS", ID: "ours", Help: "address of the dashboard, such as 127.0.0.1:8082 or :8082; none if empty. Unless it is a loopback address, every request needs a token that may get /karpenter/api/v1/*",
			set: text(func(o *Options) *string { return &o.DashboardAddress }, listenAddress),
		},
		{
			Env: "LEDGER_DIR", ID: "ours", Help: "folder on a volume that decisions are kept in, at most 128 MiB; in memory only if empty",
			set: text(func(o *Options) *string { return &o.LedgerDir }),
		},
		{
			Env: "LOG_LEVEL", ID: "O72", Default: "info", Help: "what is logged: debug, info or error",
			set: choice(func(o *Options, v string) { o.LogLevel = v }, "debug", "info", "error"),
		},
		{
			Env: "LOG_ENCODING", ID: "O55", Default: "json", Help: "form of log lines: json, or console for reading without tools",
			set: choice(func(o *Options, v string) { o.LogEncoding = v }, "json", "console"),
		},
		{
			Env: "LOG_OUTPUT_PATHS", ID: "O72", Default: "stdout", Help: "where logs go: stdout, stderr or files, separated by commas",
			set: paths(func(o *Options) *[]string { return &o.LogOutputPaths }),
		},
		{
			Env: "LOG_ERROR_OUTPUT_PATHS", ID: "O72", Default: "stderr", Help: "where it is said that logs cannot be written",
			set: paths(func(o *Options) *[]string { return &o.LogErrorOutputPaths }),
		},
		{
			Env: "KARPENTER_SERVICE", ID: "O73", Help: "Service in front of this process, by which the API server reaches the conversion webhook; without it there is none",
			set: text(func(o *Options) *string { return &o.KarpenterService }),
		},
		{
			Env: "SYSTEM_NAMESPACE", ID: "aws-7.2", Help: "namespace that this process runs in",
			set: text(func(o *Options) *string { return &o.SystemNamespace }),
		},
		{
			Env: "DISABLE_WEBHOOK", ID: "A1", Default: "false", Bool: true, Help: "do not serve v1beta1 of NodePool, NodeClaim and EC2NodeClass",
			set: boolean(func(o *Options) *bool { return &o.DisableWebhook }),
		},
		{
			Env: "WEBHOOK_PORT", ID: "A1", Default: "8443", Help: "port of the conversion webhook",
			set: integer(1, 65535, func(o *Options, v int64) { o.WebhookPort = int(v) }),
		},
		{
			Env: "WEBHOOK_SERVICE_PORT", ID: "ours", Default: "0", Help: "port of the Service that leads to the conversion webhook; that of the webhook if 0",
			set: integer(0, 65535, func(o *Options, v int64) { o.WebhookServicePort = int(v) }),
		},
	}
}

func awsSettings() []Setting {
	return []Setting{
		{
			Env: "CLUSTER_NAME", ID: "aws-7.3", Help: "name of the EKS cluster; required",
			set: text(func(o *Options) *string { return &o.ClusterName }, required("the name of the EKS cluster")),
		},
		{
			Env: "CLUSTER_ENDPOINT", ID: "aws-7.3", Help: "URL of the API server that nodes join; asked from EKS if empty",
			set: text(func(o *Options) *string { return &o.ClusterEndpoint }, absoluteURL),
		},
		{
			Env: "CLUSTER_CA_BUNDLE", ID: "aws-7.3", Help: "certificate authority of that API server in base64; asked from EKS or taken from this process's own connection if empty",
			set: text(func(o *Options) *string { return &o.CABundle }, certificates),
		},
		{
			Env: "ISOLATED_VPC", ID: "aws-7.3", Default: "false", Bool: true, Help: "AWS services without a VPC endpoint cannot be reached: Pricing and IAM are not asked",
			set: boolean(func(o *Options) *bool { return &o.IsolatedVPC }),
		},
		{
			Env: "EKS_CONTROL_PLANE", ID: "aws-7.3", Default: "false", Bool: true, Help: "the control plane is EKS: its version is asked from EKS",
			set: boolean(func(o *Options) *bool { return &o.EKSControlPlane }),
		},
		{
			Env: "VM_MEMORY_OVERHEAD_PERCENT", ID: "aws-7.3", Default: "0.075", Help: "share of memory that instances are expected to lack, until one has been seen",
			set: setMemoryOverhead,
		},
		{
			Env: "INTERRUPTION_QUEUE", ID: "aws-7.3", Help: "name of the SQS queue with notices of interruption; without it there are none",
			set: text(func(o *Options) *string { return &o.InterruptionQueue }),
		},
		{
			Env: "RESERVED_ENIS", ID: "aws-7.3", Default: "0", Help: "network interfaces that are kept from pods",
			set: integer(0, 1000, func(o *Options, v int64) { o.ReservedENIs = v }),
		},
		{
			Env: "DISABLE_DRY_RUN", ID: "aws-7.3", Default: "false", Bool: true, Help: "do not try whether a class can launch",
			set: boolean(func(o *Options) *bool { return &o.DisableDryRun }),
		},
		{
			Env: "ENABLE_ZONAL_SHIFT", ID: "aws-7.3", Default: "false", Bool: true, Help: "keep launches out of zones that the cluster is shifted away from",
			set: boolean(func(o *Options) *bool { return &o.EnableZonalShift }),
		},
		{
			Env: "AMI_REFRESH_INTERVAL", ID: "aws-7.3", Default: "1m", Help: "how often images are looked up; a minute or more",
			set: duration(minRefresh, func(o *Options) pDuration { return &o.AMIRefreshInterval }),
		},
		{
			Env: "SUBNET_REFRESH_INTERVAL", ID: "aws-7.3", Default: "1m", Help: "how often subnets are looked up; a minute or more",
			set: duration(minRefresh, func(o *Options) pDuration { return &o.SubnetRefreshInterval }),
		},
		{
			Env: "SECURITY_GROUP_REFRESH_INTERVAL", ID: "aws-7.3", Default: "1m", Help: "how often security groups are looked up; a minute or more",
			set: duration(minRefresh, func(o *Options) pDuration { return &o.SecurityGroupRefreshInterval }),
		},
		{
			Env: "AWS_FEATURE_GATES", ID: "aws-7.3", Default: gatesDefault(awsGates()), Help: "features of the AWS provider to turn on or off, as FEATURE_GATES",
			set: setAWSGates,
		},
	}
}
