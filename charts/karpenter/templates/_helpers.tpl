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

{{/* A list of terms, given as (list root terms), where those without a labelSelector get that of the controller's pods. */}}
{{- define "karpenter.terms" -}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "karpenter.selectorLabels" (index . 0) | fromYaml)) }}
{{- range index . 1 }}
{{- $term := . }}
{{- if not (hasKey $term "labelSelector") }}
{{- $term = merge (deepCopy $own) $term }}
{{- end }}
- {{ toYaml $term | nindent 2 | trim }}
{{- end }}
{{- end }}

{{/* FEATURE_GATES of the gates' values: nodeRepair is NodeRepair. */}}
{{- define "karpenter.gates" -}}
{{- $gates := list }}
{{- range $name := keys . | sortAlpha }}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 (len $name) $name) (index $ $name)) }}
{{- end }}
{{- join "," $gates }}
{{- end }}
