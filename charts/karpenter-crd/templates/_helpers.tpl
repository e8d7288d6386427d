{{/* Who has brought a CRD that is in the cluster: namespace/name of a release; nothing for one that Helm does not know. */}}
{{- define "karpenter-crd.owner" -}}
{{- $notes := dig "metadata" "annotations" dict . }}
{{- with get $notes "meta.helm.sh/release-name" }}{{ get $notes "meta.helm.sh/release-namespace" }}/{{ . }}{{ end }}
{{- end }}

{{/* Whether a CRD that others share with us, given as (list root name), is not there, or is this release's and has no versions that this
chart does not know. */}}
{{- define "karpenter-crd.free" -}}
{{- $root := index . 0 }}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (index . 1) }}
{{- $newer := false }}
{{- range (dig "spec" "versions" list ($there | default dict)) }}{{ if ne .name "v1beta1" }}{{ $newer = true }}{{ end }}{{ end }}
{{- if or (not $there) (and (not $newer) (eq (include "karpenter-crd.owner" $there) (printf "%s/%s" $root.Release.Namespace $root.Release.Name))) }}yes{{ end }}
{{- end }}
