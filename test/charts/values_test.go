package charts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func newBuffer(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// everything sets values that others leave alone.
const everything = `
fullnameOverride: mine
additionalLabels: {team: nodes}
additionalAnnotations: {note: mine}
service: {annotations: {a: b}}
serviceMonitor: {enabled: true, additionalLabels: {release: prometheus}, sampleLimit: 10000, endpointConfig: {scrapeTimeout: 10s}, relabelings: [{action: drop}], metricRelabelings: [{action: keep}]}
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {}}]}
additionalClusterRoleRules: [{apiGroups: [example.com], resources: [leftovers], verbs: [get]}]
replicas: 3
podLabels: {p: q}
podAnnotations: {p: q}
imagePullSecrets: [{name: pull}]
terminationGracePeriodSeconds: 60
hostNetwork: true
dnsPolicy: Default
dnsConfig: {nameservers: [10.0.0.10]}
initContainers: [{name: first, image: busybox}]
extraVolumes: [{name: scratch, emptyDir: {}}]
logLevel: debug
controller:
  image: {tag: v9, digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
  env: [{name: ENABLE_PROFILING, value: "true"}]
  envFrom: [{configMapRef: {name: more}}]
  securityContext: {appArmorProfile: {type: RuntimeDefault}}
  metrics: {port: 9000}
  extraVolumeMounts: [{name: scratch, mountPath: /scratch}]
  sidecarContainer: [{name: side, image: busybox}]
  sidecarVolumeMounts: [{name: scratch, mountPath: /scratch}]
settings:
  clusterName: my-cluster
  clusterEndpoint: https://example.com
  interruptionQueue: my-queue
  enableZonalShift: true
  reservedENIs: 2
  ignoreDRARequests: false
  preferencePolicy: Ignore
  amiRefreshInterval: 5m
  decisionAPI: false
  dashboardAddress: ":8082"
  ledgerDir: /scratch
  schedulerConfig: '{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]}}'
  featureGates: {nodeRepair: true, spotToSpotConsolidation: true, reservedCapacity: false, podDeletionCostManagement: true}
`

// known are the values that users of Karpenter's charts have in their files (aws §7.2), with the default that they count on. What
// this chart does differently is left out: the image, and resources, which are not empty here.
const known = `
additionalAnnotations {}
additionalClusterRoleRules []
additionalLabels {}
affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution [{"topologyKey":"kubernetes.io/hostname"}]
controller.containerName "controller"
controller.env []
controller.envFrom []
controller.extraVolumeMounts []
controller.healthProbe.port 8081
controller.metrics.port 8080
controller.securityContext {}
controller.sidecarContainer []
controller.sidecarVolumeMounts []
dnsConfig {}
dnsPolicy "ClusterFirst"
extraVolumes []
fullnameOverride ""
hostNetwork false
imagePullPolicy "IfNotPresent"
imagePullSecrets []
initContainers {}
logErrorOutputPaths ["stderr"]
logLevel "info"
logOutputPaths ["stdout"]
nameOverride ""
nodeSelector {"kubernetes.io/os":"linux"}
podAnnotations {}
podDisruptionBudget.maxUnavailable 1
podDisruptionBudget.name "karpenter"
podLabels {}
podSecurityContext.fsGroup 65532
podSecurityContext.seccompProfile.type "RuntimeDefault"
priorityClassName "system-cluster-critical"
replicas 2
revisionHistoryLimit 10
schedulerName "default-scheduler"
service.annotations {}
serviceAccount.annotations {}
serviceAccount.create true
serviceAccount.name ""
serviceMonitor.additionalLabels {}
serviceMonitor.enabled false
serviceMonitor.endpointConfig {}
serviceMonitor.metricRelabelings []
serviceMonitor.relabelings []
serviceMonitor.sampleLimit null
settings.amiRefreshInterval "1m"
settings.awsFeatureGates.nodeClassCEL false
settings.awsFeatureGates.rebootForRepair false
settings.batchIdleDuration "1s"
settings.batchMaxDuration "10s"
settings.clusterCABundle ""
settings.clusterEndpoint ""
settings.clusterName ""
settings.disableClusterStateObservability false
settings.disableDryRun false
settings.eksControlPlane false
settings.enableZonalShift false
settings.featureGates.capacityBuffer true
settings.featureGates.nodeOverlay false
settings.featureGates.nodeRepair false
settings.featureGates.podDeletionCostManagement false
settings.featureGates.reservedCapacity true
settings.featureGates.spotToSpotConsolidation false
settings.featureGates.staticCapacity false
settings.featureGates.terminateFirstDrift false
settings.featureGates.terminateFirstRepair false
settings.ignoreDRARequests true
settings.interruptionQueue ""
settings.isolatedVPC false
settings.legacyNodeRepair false
settings.minValuesPolicy "Strict"
settings.preferencePolicy "Respect"
settings.reservedENIs "0"
settings.subnetRefreshInterval "1m"
settings.vmMemoryOverheadPercent 0.075
strategy.rollingUpdate.maxUnavailable 1
terminationGracePeriodSeconds null
tolerations [{"key":"CriticalAddonsOnly","operator":"Exists"}]
topologySpreadConstraints [{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]
`

func values(t *testing.T, chart string) map[string]any {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal([]byte(read(t, at("charts", chart, "values.yaml"))), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestValuesHaveTheKnownNamesAndDefaults(t *testing.T) {
	all := values(t, "karpenter")
	for line := range strings.Lines(strings.TrimSpace(known)) {
		path, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, found := any(all), true
		for key := range strings.SplitSeq(path, ".") {
			inner, ok := value.(map[string]any)
			if value, found = inner[key]; !ok || !found {
				t.Errorf("no value %s", path)
				break
			}
		}
		got, err := json.Marshal(value)
		if err != nil || found && string(got) != want {
			t.Errorf("%s is %s by default, want %s (%v)", path, got, want, err)
		}
	}
}

// A value that the schema does not name cannot be set, and one that it names alone does nothing.
func TestTheSchemaNamesEveryValue(t *testing.T) {
	for _, chart := range []string{"karpenter", "karpenter-crd"} {
		var schema map[string]any
		if err := json.Unmarshal([]byte(read(t, at("charts", chart, "values.schema.json"))), &schema); err != nil {
			t.Fatal(err)
		}
		compare(t, chart, schema, values(t, chart))
	}
}

func compare(t *testing.T, path string, schema, values map[string]any) {
	t.Helper()
	properties, closed := schema["properties"].(map[string]any)
	if !closed {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		value, there := values[key]
		if property, _ := properties[key].(map[string]any); property["deprecated"] == true {
			continue // of another chart: read, or named in the notes, and never set here
		}
		if !there && key != "global" && !strings.HasSuffix(path, ".securityContext") {
			t.Errorf("the schema has %s.%s, which has no default", path, key)
		}
		if inner, ok := value.(map[string]any); ok {
			property, _ := properties[key].(map[string]any)
			compare(t, fmt.Sprintf("%s.%s", path, key), property, inner)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if properties[key] == nil {
			t.Errorf("the schema lacks %s.%s", path, key)
		}
	}
}
