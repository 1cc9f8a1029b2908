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

{{- define "rekindle.image" -}}
{{- $repository := required "image.repository: no image is published yet, name one that has the static binary" .Values.image.repository -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
