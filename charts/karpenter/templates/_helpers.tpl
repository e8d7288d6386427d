{{/* What the templates need beyond the values that are there: every template begins with it. With helm upgrade --reuse-values the values are
those of the release that is there, with the defaults of its chart instead of this one's, and that chart may be older than this
one, or another's. Names of charts 0.3x are read as what they have become; what has no meaning any more is named in NOTES.txt. */}}
{{- define "karpenter.defaults" -}}
{{- $defaults := `
additionalLabels: {}
additionalAnnotations: {}
imagePullPolicy: IfNotPresent
service: {annotations: {}}
serviceAccount: {create: true, name: "", annotations: {}}
serviceMonitor: {enabled: false, additionalLabels: {}}
networkPolicy: {enabled: false}
admissionPolicy: {enabled: true}
crds: {install: true}
webhook: {enabled: true, port: 8443}
replicas: 2
revisionHistoryLimit: 10
podDisruptionBudget: {name: karpenter, maxUnavailable: 1}
podSecurityContext: {}
hostNetwork: false
schedulerName: default-scheduler
dnsPolicy: ClusterFirst
controller:
  containerName: controller
  image: {repository: karpenter/controller, tag: "", digest: ""}
  securityContext: {}
  resources: {}
  metrics: {port: 8080}
  healthProbe: {port: 8081}
logLevel: info
logOutputPaths: [stdout]
logErrorOutputPaths: [stderr]
settings:
  provider: aws
  ignoreDRARequests: true
  nominatePods: true
  featureGates: {}
  awsFeatureGates: {}
` | fromYaml }}
{{- $values := mergeOverwrite $defaults (deepCopy .Values) }}
{{- $aws := default dict $values.settings.aws }}
{{- range $name, $was := dict "clusterName" "clusterName" "clusterEndpoint" "clusterEndpoint" "clusterCABundle" "clusterCABundle" "isolatedVPC" "isolatedVPC" "vmMemoryOverheadPercent" "vmMemoryOverheadPercent" "reservedENIs" "reservedENIs" "interruptionQueue" "interruptionQueueName" }}
{{- if and (index $aws $was) (has (index $values.settings $name | toString) (list "<nil>" "" "false" "0" "0.075")) }}
{{- $_ := set $values.settings $name (index $aws $was) }}
{{- end }}
{{- end }}
{{- $_ := set . "Values" $values }}
{{- end }}

{{/* Values of other charts of Karpenter that do nothing here and are not as those charts have them: a line for each. */}}
{{- define "karpenter.unused" -}}
{{- $values := .Values }}
{{- $others := `
settings.aws.assumeRoleARN: [""]
settings.aws.defaultInstanceProfile: [""]
settings.aws.enablePodENI: [false]
settings.aws.enableENILimitedPodDensity: [true]
settings.aws.tags: [{}]
settings.assumeRoleARN: [""]
settings.enableDRA: [false]
settings.featureGates.drift: [true]
settings.featureGates.driftEnabled: [true]
logConfig.enabled: [false]
logEncoding: ["", json]
controller.outputPaths: [[stdout]]
controller.errorOutputPaths: [[stderr]]
controller.logLevel: [""]
controller.logEncoding: [""]
` | fromYaml }}
{{- range $path := keys $others | sortAlpha }}
{{- $value := $values }}
{{- range splitList "." $path }}
{{- if kindIs "map" $value }}
{{- $value = get $value . }}
{{- else }}
{{- $value = "" }}
{{- end }}
{{- end }}
{{- $usual := has (toString $value) (list "" "<nil>") }}
{{- range index $others $path }}
{{- $usual = or $usual (deepEqual . $value) }}
{{- end }}
{{- if not $usual }}
  {{ $path }}
{{- end }}
{{- end }}
{{- end }}

{{/* The chart's part of names. */}}
{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of objects: that of the release, with the chart's in it. */}}
{{- define "karpenter.fullname" -}}
{{- $name := include "karpenter.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What the controller's pods are found by. */}}
{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels and annotations of an object, given as (list root ownAnnotations). */}}
{{- define "karpenter.metadata" -}}
{{- $root := index . 0 }}
labels:
  {{- include "karpenter.labels" $root | nindent 2 }}
{{- with merge (dict) (index . 1) $root.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: with serviceAccount.create=false it must name an account that exists" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The port of the dashboard where others than the pod itself reach it; nothing if it is off or on a loopback address. */}}
{{- define "karpenter.dashboardPort" -}}
{{- with .Values.settings.dashboardAddress }}
{{- if not (regexMatch "^(localhost|127(\\.[0-9]+){3}|\\[[0:]*:0*1\\]):" .) }}
{{- regexFind "[0-9]+$" . }}
{{- end }}
{{- end }}
{{- end }}

{{/* A term between pods, given as (list root term), that has no labelSelector gets that of the controller's pods. */}}
{{- define "karpenter.select" -}}
{{- if not (hasKey (index . 1) "labelSelector") }}
{{- $_ := set (index . 1) "labelSelector" (dict "matchLabels" (include "karpenter.selectorLabels" (index . 0) | fromYaml)) }}
{{- end }}
{{- end }}

{{/* FEATURE_GATES of the gates' values: nodeRepair is NodeRepair, and upstream writes two in capitals. One that is null is not given. */}}
{{- define "karpenter.gates" -}}
{{- $names := dict "draNVIDIAGPU" "DRANVIDIAGPU" "draEFA" "DRAEFA" }}
{{- $gates := list }}
{{- range $name := keys . | sortAlpha }}
{{- $on := index $ $name }}
{{- if not (kindIs "invalid" $on) }}
{{- $usual := printf "%s%s" (substr 0 1 $name | upper) (substr 1 (len $name) $name) }}
{{- $gates = append $gates (printf "%s=%t" (get $names $name | default $usual) $on) }}
{{- end }}
{{- end }}
{{- join "," $gates }}
{{- end }}

{{/* The provider's kind of node class. */}}
{{- define "karpenter.class" -}}
{{- if eq .Values.settings.provider "cluster-api" -}}
{group: karpenter.cluster.x-k8s.io, version: v1alpha1, resource: clusterapinodeclasses, kind: ClusterAPINodeClass}
{{- else -}}
{group: karpenter.k8s.aws, version: v1, resource: ec2nodeclasses, kind: EC2NodeClass}
{{- end }}
{{- end }}
