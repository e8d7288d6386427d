package operator

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"karpenter/cloud"
	"karpenter/cloud/plug"
	"karpenter/cloud/setting"
	"karpenter/internal/meter"
)

// PreferencePolicy says what is made of preferred affinities and the like.
type PreferencePolicy string

// MinValuesPolicy says what happens when the minValues of a pool cannot be had.
type MinValuesPolicy string

// Policies.
const (
	PreferencesRespect  PreferencePolicy = "Respect"
	PreferencesIgnore   PreferencePolicy = "Ignore"
	MinValuesStrict     MinValuesPolicy  = "Strict"
	MinValuesBestEffort MinValuesPolicy  = "BestEffort"
)

// Options are what flags and environment say. Settings lists where each comes from.
type Options struct {
	BatchMaxDuration, BatchIdleDuration time.Duration
	InitializationTimeout               time.Duration // none if 0
	PreferencePolicy                    PreferencePolicy
	MinValuesPolicy                     MinValuesPolicy
	Gates                               Gates
	IgnoreDRARequests, NominatePods     bool
	// LegacyNodeRepair replaces unhealthy nodes as releases before 1.15 did.
	LegacyNodeRepair bool
	// DefaultSpread is for pods without spread constraints of their own (SCHEDULER_CONFIG).
	DefaultSpread []corev1.TopologySpreadConstraint

	CPURequests      int64 // thousandths of a core
	MemoryLimitBytes int64 // none if negative
	KubeClientQPS    int
	KubeClientBurst  int

	MetricsPort, HealthProbePort int
	EnableProfiling              bool
	// DecisionAPI serves decisions on the port of metrics; the dashboard has an address of its own, if any.
	DecisionAPI                 bool
	DashboardAddress, LedgerDir string

	DisableLeaderElection               bool
	LeaderElectionName                  string
	LeaderElectionNamespace             string
	DisableControllerWarmup             bool
	DisableClusterStateObservability    bool
	LogLevel, LogEncoding               string
	LogOutputPaths, LogErrorOutputPaths []string
	KarpenterService, SystemNamespace   string
	DisableWebhook                      bool
	WebhookPort, WebhookServicePort     int

	// Provider is who makes nodes, Kind its kind of node class, Meter its metrics, and Cloud what its settings were read into.
	Provider string
	Kind     cloud.Kind
	Meter    meter.Cloud
	Cloud    plug.Cloud

	// Warnings tell of settings that are understood and have no effect.
	Warnings []string
}

// Source is where settings come from: flags that were given, by their name without dashes, and the environment.
type Source = setting.Source

// ParseOptions reads every setting of the controller and of the provider that is chosen among those given. The error names everything
// that is wrong, one line each.
func ParseOptions(from Source, providers ...plug.Plugin) (*Options, error) {
	o := &Options{}
	err := from.Read(o.settings(providers))
	for _, p := range providers {
		if p.Name == o.Provider {
			o.Kind, o.Meter, o.Cloud = p.Kind, p.Metrics(), p.New()
			err = errors.Join(err, from.Read(o.Cloud.Settings(o.warn)))
		}
	}
	err = errors.Join(err, o.strangers(from, providers))
	if err == nil {
		err = errors.Join(o.contradictions()...)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Options) warn(text string) { o.Warnings = append(o.Warnings, text) }

// strangers refuses flags of providers that are not chosen.
func (o *Options) strangers(from Source, providers []plug.Plugin) error {
	if o.Cloud == nil {
		return nil // that is wrong already
	}
	known := map[string]bool{}
	for _, s := range append(o.settings(providers), o.Cloud.Settings(func(string) {})...) {
		known[s.Flag()] = true
	}
	var wrong []error
	for _, p := range providers {
		for _, s := range p.New().Settings(func(string) {}) {
			if _, given := from.Flags[s.Flag()]; given && !known[s.Flag()] {
				wrong = append(wrong, fmt.Errorf("--%s is a setting of provider %s, and PROVIDER is %s: leave it out, or set PROVIDER=%s", s.Flag(), p.Name, o.Provider, p.Name))
			}
		}
	}
	return errors.Join(wrong...)
}

// contradictions are settings that are right each by itself and wrong together.
func (o *Options) contradictions() []error {
	var wrong []error
	if o.Gates.TerminateFirstRepair && !o.Gates.NodeRepair {
		wrong = append(wrong, errors.New("FEATURE_GATES: TerminateFirstRepair=true needs NodeRepair=true: nothing is repaired without it; set both, or neither"))
	}
	if o.BatchIdleDuration > o.BatchMaxDuration {
		wrong = append(wrong, fmt.Errorf("BATCH_IDLE_DURATION=%v is longer than BATCH_MAX_DURATION=%v: a batch would end before it is idle; make it shorter",
			o.BatchIdleDuration, o.BatchMaxDuration))
	}
	ports := []struct {
		name string
		port int
	}{{"METRICS_PORT", o.MetricsPort}, {"HEALTH_PROBE_PORT", o.HealthProbePort}, {"WEBHOOK_PORT", o.WebhookPort}}
	for i, a := range ports {
		for _, b := range ports[:i] {
			if a.port == b.port && (a.name != "WEBHOOK_PORT" || o.webhook()) {
				wrong = append(wrong, fmt.Errorf("%s=%d and %s=%d are the same port: give each its own", b.name, b.port, a.name, a.port))
			}
		}
	}
	if o.webhook() && o.SystemNamespace == "" {
		wrong = append(wrong, fmt.Errorf("KARPENTER_SERVICE=%q needs SYSTEM_NAMESPACE, the namespace of that Service; or set DISABLE_WEBHOOK=true", o.KarpenterService))
	}
	if !o.DisableLeaderElection && o.leaseNamespace() == "" {
		wrong = append(wrong, errors.New("LEADER_ELECTION_NAMESPACE and SYSTEM_NAMESPACE are empty: say which namespace the lease is in, or set DISABLE_LEADER_ELECTION=true"))
	}
	return wrong
}

// webhook says whether the conversion webhook is served: there must be a Service that the API server reaches it by.
func (o *Options) webhook() bool { return !o.DisableWebhook && o.KarpenterService != "" }

// webhookServicePort is the port at which the API server finds the Service in front of the conversion webhook.
func (o *Options) webhookServicePort() int32 {
	if o.WebhookServicePort != 0 {
		return int32(o.WebhookServicePort)
	}
	return int32(o.WebhookPort)
}

func (o *Options) leaseNamespace() string {
	if o.LeaderElectionNamespace != "" {
		return o.LeaderElectionNamespace
	}
	return o.SystemNamespace
}
