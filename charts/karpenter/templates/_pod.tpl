{{/* The settings that differ by value, as variables of the environment: docs/reference/flags.md has them all. */}}
{{- define "karpenter.env" -}}
{{- $settings := .Values.settings }}
{{- $own := list }}
{{- if eq $settings.provider "aws" }}
{{- $own = list
  (list "CLUSTER_NAME" (required "settings.clusterName: the name of the EKS cluster must be given" $settings.clusterName))
  (list "CLUSTER_ENDPOINT" $settings.clusterEndpoint)
  (list "CLUSTER_CA_BUNDLE" $settings.clusterCABundle)
  (list "INTERRUPTION_QUEUE" $settings.interruptionQueue)
  (list "ISOLATED_VPC" $settings.isolatedVPC)
  (list "EKS_CONTROL_PLANE" $settings.eksControlPlane)
  (list "VM_MEMORY_OVERHEAD_PERCENT" $settings.vmMemoryOverheadPercent)
  (list "RESERVED_ENIS" $settings.reservedENIs)
  (list "ENABLE_ZONAL_SHIFT" $settings.enableZonalShift)
  (list "DISABLE_DRY_RUN" $settings.disableDryRun)
  (list "AMI_REFRESH_INTERVAL" $settings.amiRefreshInterval)
  (list "SUBNET_REFRESH_INTERVAL" $settings.subnetRefreshInterval)
  (list "SECURITY_GROUP_REFRESH_INTERVAL" $settings.securityGroupRefreshInterval)
  (list "AWS_FEATURE_GATES" (include "karpenter.gates" $settings.awsFeatureGates))
}}
{{- else }}
{{- $clusterAPI := default dict $settings.clusterAPI }}
{{- $own = list
  (list "PROVIDER" $settings.provider)
  (list "CLUSTER_API_KUBECONFIG" $clusterAPI.kubeconfig)
  (list "CLUSTER_API_NAMESPACE" $clusterAPI.namespace)
  (list "CLUSTER_API_CLUSTER_NAME" $clusterAPI.clusterName)
  (list "CLUSTER_API_PRICE_FILE" $clusterAPI.priceFile)
  (list "CLUSTER_API_PROVISION_TIMEOUT" $clusterAPI.provisionTimeout)
}}
{{- end }}
{{- $env := concat $own (list
  (list "BATCH_MAX_DURATION" $settings.batchMaxDuration)
  (list "BATCH_IDLE_DURATION" $settings.batchIdleDuration)
  (list "PREFERENCE_POLICY" $settings.preferencePolicy)
  (list "MIN_VALUES_POLICY" $settings.minValuesPolicy)
  (list "LEGACY_NODE_REPAIR" $settings.legacyNodeRepair)
  (list "IGNORE_DRA_REQUESTS" $settings.ignoreDRARequests)
  (list "NOMINATE_PODS" $settings.nominatePods)
  (list "INITIALIZATION_TIMEOUT" $settings.initializationTimeout)
  (list "SCHEDULER_CONFIG" $settings.schedulerConfig)
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" $settings.disableClusterStateObservability)
  (list "DECISION_API" $settings.decisionAPI)
  (list "DASHBOARD_ADDRESS" $settings.dashboardAddress)
  (list "LEDGER_DIR" $settings.ledgerDir)
  (list "FEATURE_GATES" (include "karpenter.gates" $settings.featureGates))
  (list "METRICS_PORT" .Values.controller.metrics.port)
  (list "HEALTH_PROBE_PORT" .Values.controller.healthProbe.port)
  (list "DISABLE_WEBHOOK" (not .Values.webhook.enabled))
  (list "WEBHOOK_PORT" .Values.webhook.port)
  (list "KARPENTER_SERVICE" (include "karpenter.fullname" .))
  (list "LOG_LEVEL" .Values.logLevel)
  (list "LOG_OUTPUT_PATHS" (join "," .Values.logOutputPaths))
  (list "LOG_ERROR_OUTPUT_PATHS" (join "," .Values.logErrorOutputPaths))
) }}
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- with (.Values.controller.resources).requests }}
{{- if .cpu }}
- name: CPU_REQUESTS
  valueFrom:
    resourceFieldRef:
      containerName: {{ $.Values.controller.containerName }}
      divisor: 1m
      resource: requests.cpu
{{- end }}
{{- end }}
{{- with (.Values.controller.resources).limits }}
{{- if .memory }}
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ $.Values.controller.containerName }}
      divisor: "0"
      resource: limits.memory
{{- end }}
{{- end }}
{{- range $env }}
{{- $value := index . 1 }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- name: {{ index . 0 }}
  value: {{ tpl (toString $value) $ | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The affinity, where terms between pods that have no labelSelector mean the controller's own pods. */}}
{{- define "karpenter.affinity" -}}
{{- $affinity := deepCopy (default dict .Values.affinity) }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- with get $affinity $kind }}
{{- range .requiredDuringSchedulingIgnoredDuringExecution }}
{{- include "karpenter.select" (list $ .) }}
{{- end }}
{{- range .preferredDuringSchedulingIgnoredDuringExecution }}
{{- include "karpenter.select" (list $ .podAffinityTerm) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
