package v1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// otherKubeletFields are the fields of kubelet.config.k8s.io/v1beta1 that KubeletConfiguration has no field for, by the kind of their
// values, as of Kubernetes 1.37. A kubelet does not start with a field that it does not know, or with a value of another kind.
var otherKubeletFields = map[string][]string{
	"true or false": strings.Fields(`
		cgroupsPerQOS enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
		enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery failCgroupV1 failSwapOn
		kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains mergeDefaultEvictionSettings
		protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault serializeImagePulls serverTLSBootstrap
		singleProcessOOMKill`),
	"a number": strings.Fields(`
		containerLogMaxFiles containerLogMaxWorkers eventBurst eventRecordQPS healthzPort iptablesDropBit iptablesMasqueradeBit
		kubeAPIBurst kubeAPIQPS maxOpenFiles maxParallelImagePulls memoryThrottlingFactor nodeLeaseDurationSeconds
		nodeStatusMaxImages oomScoreAdj podPidsLimit port readOnlyPort registryBurst registryPullQPS`),
	"a text": strings.Fields(`
		address cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxSize
		containerLogMonitorInterval containerRuntimeEndpoint contentType cpuCFSQuotaPeriod cpuManagerPolicy
		cpuManagerReconcilePeriod evictionPressureTransitionPeriod fileCheckFrequency hairpinMode healthzBindAddress
		httpCheckFrequency imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy imageServiceEndpoint
		kubeReservedCgroup kubeletCgroups memoryManagerPolicy memoryReservationPolicy nodeStatusReportFrequency
		nodeStatusUpdateFrequency podCIDR podLogsDir providerID reservedSystemCPUs resolvConf runtimeRequestTimeout
		showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodCriticalPods staticPodPath staticPodURL
		streamingConnectionIdleTimeout syncFrequency systemCgroups systemReservedCgroup tlsCertFile tlsMinVersion
		tlsPrivateKeyFile topologyManagerPolicy topologyManagerScope volumePluginDir volumeStatsAggPeriod`),
	"a list": strings.Fields(`
		allowedUnsafeSysctls enforceNodeAllocatable preloadedImagesVerificationAllowlist registerWithTaints reservedMemory
		shutdownGracePeriodByPodPriority tlsCipherSuites tlsCurvePreferences`),
	"an object": strings.Fields(`
		authentication authorization cpuManagerPolicyOptions crashLoopBackOff defaultPodSysctls evictionMinimumReclaim
		featureGates logging memorySwap qosReserved staticPodURLHeader topologyManagerPolicyOptions tracing userNamespaces`),
}

// validateOther checks names and kinds of the fields that are passed on as they are.
func validateOther(extra map[string]string, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		want := ""
		for kind, names := range otherKubeletFields {
			if slices.Contains(names, name) {
				want = kind
			}
		}
		var value any
		err := json.Unmarshal([]byte(extra[name]), &value)
		switch {
		case want == "":
			problems = append(problems, field.Invalid(path.Child(name), extra[name], "the kubelet has no such field; names are as in kubelet.config.k8s.io/v1beta1, with upper and lower case"))
		case err != nil || value != nil && kindOf(value) != want:
			problems = append(problems, field.Invalid(path.Child(name), extra[name], fmt.Sprintf("must be %s", want)))
		}
	}
	return problems
}

// kindOf says what a JSON value is.
func kindOf(value any) string {
	switch value.(type) {
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "an object"
}
