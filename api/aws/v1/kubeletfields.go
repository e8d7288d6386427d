package v1

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	karpv1 "karpenter/api/karpenter/v1"
)

// shape is what a value in the kubelet's configuration has to be. A kubelet does not start with one of another shape, or with a field
// that it does not know.
type shape struct {
	what string
	fits func(value any) bool
	// each is the shape of what a list or an object has in it, and fields are those that an object can have if only some are known.
	each   *shape
	fields map[string]*shape
}

var (
	boolean  = &shape{what: "true or false", fits: func(v any) bool { _, ok := v.(bool); return ok }}
	number   = &shape{what: "a number", fits: func(v any) bool { _, ok := v.(float64); return ok || isWhole(v) }}
	whole    = &shape{what: "a whole number", fits: isWhole}
	whole32  = &shape{what: "a whole number from -2147483648 to 2147483647", fits: func(v any) bool { n, ok := v.(int64); return ok && n == int64(int32(n)) }}
	unsigned = &shape{what: "a whole number from 0 to 4294967295", fits: func(v any) bool { n, ok := v.(int64); return ok && n == int64(uint32(n)) }}
	text     = &shape{what: "a text", fits: isText}
	duration = &shape{what: "a duration, for example 30s or 1m30s", fits: isDuration}
	flush    = &shape{what: "a duration, for example 5s, or a whole number of nanoseconds", fits: func(v any) bool { return isWhole(v) || isDuration(v) }}
	amount   = &shape{what: "an amount, for example 500Mi", fits: isAmount}
	countOr  = &shape{what: `a whole number from -2147483648 to 2147483647, or an expression such as "min(110, max_pods)"`, fits: func(v any) bool { return whole32.fits(v) || isText(v) }}

	texts       = &shape{what: "a list of texts", each: text, fits: isList}
	textByName  = &shape{what: `an object of texts, for example {cpu: "1"}`, each: text, fits: isObject}
	graceByName = &shape{what: "an object of durations, for example {memory.available: 1m30s}", each: duration, fits: isObject}
	logOutput   = object(map[string]*shape{"splitStream": boolean, "infoBufferSize": amount})
)

func isWhole(v any) bool  { _, ok := v.(int64); return ok }
func isText(v any) bool   { _, ok := v.(string); return ok }
func isList(v any) bool   { _, ok := v.([]any); return ok }
func isObject(v any) bool { _, ok := v.(map[string]any); return ok }

func isDuration(v any) bool {
	s, ok := v.(string)
	_, err := time.ParseDuration(s)
	return ok && err == nil
}

func isAmount(v any) bool {
	s, ok := v.(string)
	_, err := karpv1.ParseQuantity(s)
	return ok && err == nil || number.fits(v)
}

func list(each *shape) *shape   { return &shape{what: "a list", each: each, fits: isList} }
func byName(each *shape) *shape { return &shape{what: "an object", each: each, fits: isObject} }
func object(fields map[string]*shape) *shape {
	return &shape{what: "an object", fields: fields, fits: isObject}
}

// knownKubeletShapes are those of the fields of KubeletConfiguration.
var knownKubeletShapes = map[string]*shape{
	"clusterDNS": texts, "maxPods": countOr, "podsPerCore": whole32, "systemReserved": textByName, "kubeReserved": textByName,
	"evictionHard": textByName, "evictionSoft": textByName, "evictionSoftGracePeriod": graceByName,
	"evictionMaxPodGracePeriod": whole32, "imageGCHighThresholdPercent": whole32, "imageGCLowThresholdPercent": whole32,
	"cpuCFSQuota": boolean,
}

// otherKubeletShapes are those of the fields of kubelet.config.k8s.io/v1beta1 that KubeletConfiguration has no field for, as of
// Kubernetes 1.37.
var otherKubeletShapes = func() map[string]*shape {
	shapes := map[string]*shape{
		"authentication": object(map[string]*shape{
			"x509":      object(map[string]*shape{"clientCAFile": text}),
			"webhook":   object(map[string]*shape{"enabled": boolean, "cacheTTL": duration}),
			"anonymous": object(map[string]*shape{"enabled": boolean}),
		}),
		"authorization": object(map[string]*shape{
			"mode":    text,
			"webhook": object(map[string]*shape{"cacheAuthorizedTTL": duration, "cacheUnauthorizedTTL": duration}),
		}),
		"crashLoopBackOff": object(map[string]*shape{"maxContainerRestartPeriod": duration}),
		"featureGates":     byName(boolean),
		"logging": object(map[string]*shape{
			"format": text, "flushFrequency": flush, "verbosity": unsigned,
			"vmodule": list(object(map[string]*shape{"filePattern": text, "verbosity": unsigned})),
			"options": object(map[string]*shape{"text": logOutput, "json": logOutput}),
		}),
		"memorySwap":     object(map[string]*shape{"swapBehavior": text}),
		"reservedMemory": list(object(map[string]*shape{"numaNode": whole32, "limits": byName(amount)})),
		"shutdownGracePeriodByPodPriority": list(object(map[string]*shape{
			"priority": whole32, "shutdownGracePeriodSeconds": whole,
		})),
		"staticPodURLHeader":  byName(list(text)),
		"tlsCurvePreferences": list(whole32),
		"tracing":             object(map[string]*shape{"endpoint": text, "samplingRatePerMillion": whole32}),
		"userNamespaces":      object(map[string]*shape{"idsPerPod": whole}),

		"registerWithTaints": {what: "a list", fits: isList}, // nobody may give it
	}
	for of, names := range map[*shape]string{
		boolean: `cgroupsPerQOS enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
			enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery failCgroupV1 failSwapOn
			kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains mergeDefaultEvictionSettings
			protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault serializeImagePulls serverTLSBootstrap
			singleProcessOOMKill`,
		whole32: `containerLogMaxFiles containerLogMaxWorkers eventBurst eventRecordQPS healthzPort iptablesDropBit iptablesMasqueradeBit
			kubeAPIBurst kubeAPIQPS maxParallelImagePulls nodeLeaseDurationSeconds nodeStatusMaxImages oomScoreAdj port readOnlyPort
			registryBurst registryPullQPS`,
		whole:  `maxOpenFiles podPidsLimit`,
		number: `memoryThrottlingFactor`,
		text: `address cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxSize
			containerRuntimeEndpoint contentType cpuManagerPolicy hairpinMode healthzBindAddress
			imagePullCredentialsVerificationPolicy imageServiceEndpoint kubeReservedCgroup kubeletCgroups memoryManagerPolicy
			memoryReservationPolicy podCIDR podLogsDir providerID reservedSystemCPUs resolvConf showHiddenMetricsForVersion
			staticPodPath staticPodURL systemCgroups systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile
			topologyManagerPolicy topologyManagerScope volumePluginDir`,
		duration: `containerLogMonitorInterval cpuCFSQuotaPeriod cpuManagerReconcilePeriod evictionPressureTransitionPeriod
			fileCheckFrequency httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency
			nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods
			streamingConnectionIdleTimeout syncFrequency volumeStatsAggPeriod`,
		texts:      `allowedUnsafeSysctls enforceNodeAllocatable preloadedImagesVerificationAllowlist tlsCipherSuites`,
		textByName: `cpuManagerPolicyOptions defaultPodSysctls evictionMinimumReclaim qosReserved topologyManagerPolicyOptions`,
	} {
		for name := range strings.FieldsSeq(names) {
			shapes[name] = of
		}
	}
	return shapes
}()

// validateShapes checks fields that are kept as JSON texts; shapes are those of all that there can be.
func validateShapes(given map[string]string, shapes map[string]*shape, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at, want := path.Child(name), shapes[name]
		if want == nil {
			problems = append(problems, unknownField(at, given[name]))
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(given[name]), &value); err != nil {
			problems = append(problems, field.Invalid(at, given[name], "must be "+want.what))
			continue
		}
		problems = append(problems, want.check(value, at)...)
	}
	return problems
}

// check finds what in a value does not have the shape. null is as good as nothing anywhere.
func (s *shape) check(value any, at *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	if !s.fits(value) {
		return field.ErrorList{field.Invalid(at, written(value), "must be "+s.what)}
	}
	var problems field.ErrorList
	switch v := value.(type) {
	case []any:
		for i := range v {
			if s.each != nil {
				problems = append(problems, s.each.check(v[i], at.Index(i))...)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch inner := s.fields[name]; {
			case s.each != nil:
				problems = append(problems, s.each.check(v[name], at.Key(name))...)
			case inner != nil:
				problems = append(problems, inner.check(v[name], at.Child(name))...)
			default:
				problems = append(problems, unknownField(at.Child(name), written(v[name])))
			}
		}
	}
	return problems
}

func unknownField(at *field.Path, value string) *field.Error {
	return field.Invalid(at, value, "the kubelet has no such field; names are as in kubelet.config.k8s.io/v1beta1, with upper and lower case")
}

// written is a decoded value as JSON.
func written(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
