{{- define "rekindle.name" -}}
{{- if contains "rekindle" .Release.Name }}{{ .Release.Name | trunc 45 | trimSuffix "-" }}{{ else }}{{ printf "%s-rekindle" (.Release.Name | trunc 36 | trimSuffix "-") }}{{ end }}-operator
{{- end }}

{{- define "rekindle.selector" -}}
app.kubernetes.io/name: rekindle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "rekindle.labels" -}}
{{ include "rekindle.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "rekindle.agentName" -}}
{{ include "rekindle.name" . | trimSuffix "-operator" }}-agent
{{- end }}

{{- define "rekindle.agentSelector" -}}
app.kubernetes.io/name: rekindle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{- define "rekindle.agentLabels" -}}
{{ include "rekindle.agentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The agent's values; --reuse-values of a release before the agent has none of them */}}
{{- define "rekindle.agent" -}}
{{- $resources := dict "requests" (dict "cpu" "10m" "memory" "24Mi") "limits" (dict "memory" "128Mi") }}
{{- $defaults := dict "enabled" false "criSocket" "/run/containerd/containerd.sock" "maxRestarts" 1 "resources" $resources "freezePods" false "clearEmptyDirs" false "kubeletDir" "/var/lib/kubelet" "keepLogs" false "podLogsDir" "/var/log/pods" }}
{{- $agent := deepCopy (.Values.agent | default dict) }}
{{- range $key, $value := $defaults }}
{{- if not (hasKey $agent $key) }}{{- $_ := set $agent $key $value }}{{- end }}
{{- end }}
{{- /* volumes are emptied in a frozen pod */}}
{{- if $agent.clearEmptyDirs }}{{- $_ := set $agent "freezePods" true }}{{- end }}
{{- toYaml $agent }}
{{- end }}

{{- /* Values that later releases added: --reuse-values of an earlier one has none of them */}}
{{- define "rekindle.monitoring" -}}
{{- $defaults := dict "podMonitor" (dict "enabled" false "interval" "30s" "labels" dict) }}
{{- $_ := set $defaults "prometheusRule" (dict "enabled" false "labels" dict) }}
{{- $_ := set $defaults "dashboard" (dict "enabled" false "labels" (dict "grafana_dashboard" "1")) }}
{{- toYaml (mergeOverwrite $defaults (deepCopy (.Values.monitoring | default dict))) }}
{{- end }}

{{- define "rekindle.webhookSecret" -}}
{{- (.Values.exhaustedWebhook | default dict).secretName | default "" }}
{{- end }}

{{- define "rekindle.image" -}}
{{- $repository := required "image.repository: no image is published yet, build one with cargo xtask image and name it" .Values.image.repository -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* rekindle operator would end at once with the same words */}}
{{- define "rekindle.limits" -}}
{{- range $of := list "namespace" "cluster" }}
{{- $burst := int (get $.Values.limits (printf "%sBurst" $of)) }}
{{- $perMinute := int (get $.Values.limits (printf "%sPerMinute" $of)) }}
{{- if gt $burst $perMinute }}
{{- fail (printf "limits.%sBurst %d is more than limits.%sPerMinute %d: what comes at once comes within the minute, too" $of $burst $of $perMinute) }}
{{- end }}
- --ladder-{{ $of }}-per-minute={{ $perMinute }}
- --ladder-{{ $of }}-burst={{ $burst }}
{{- end }}
- --ladder-workload-concurrent={{ int .Values.limits.workloadConcurrent }}
{{- end }}
