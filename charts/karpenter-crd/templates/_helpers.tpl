{{/* Who has brought a CRD that is in the cluster: namespace/name of a release; nothing for one that Helm does not know. */}}
{{- define "karpenter-crd.owner" -}}
{{- $notes := dig "metadata" "annotations" dict . }}
{{- with get $notes "meta.helm.sh/release-name" }}{{ get $notes "meta.helm.sh/release-namespace" }}/{{ . }}{{ end }}
{{- end }}

{{/* Whether a CRD, given as (list root name), is not there, or is this release's. */}}
{{- define "karpenter-crd.free" -}}
{{- $root := index . 0 }}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (index . 1) }}
{{- if or (not $there) (eq (include "karpenter-crd.owner" $there) (printf "%s/%s" $root.Release.Namespace $root.Release.Name)) }}yes{{ end }}
{{- end }}
