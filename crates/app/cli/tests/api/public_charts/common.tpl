{{- /* What the charts share, as public ones share a library chart. */ -}}
{{- define "labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
{{- define "selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "container" -}}
image: localhost/demo
args: [signal]
resources:
  requests: {cpu: 10m, memory: 16Mi}
  limits: {memory: 64Mi}
{{- end -}}
{{- define "job" -}}
backoffLimit: 2
template:
  spec:
    restartPolicy: Never
    containers:
    - name: job
      image: localhost/demo
      args: [crash, --after, 10ms, --exit-code, "0"]
      resources: {requests: {cpu: 10m, memory: 16Mi}}
{{- end -}}
{{- define "deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}{{ .suffix }}
  labels: {{- include "labels" . | nindent 4 }}
spec:
  replicas: 1
  selector:
    matchLabels: {{- include "selector" . | nindent 6 }}
      component: main{{ .suffix }}
  template:
    metadata:
      labels: {{- include "selector" . | nindent 8 }}
        component: main{{ .suffix }}
      annotations: {change: {{ .Values.change | quote }}}
    spec:
      terminationGracePeriodSeconds: 1
      serviceAccountName: {{ .Release.Name }}
      containers:
      - name: main
        {{- include "container" . | nindent 8 }}
---
{{- end -}}
{{- define "account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Release.Name }}
  labels: {{- include "labels" . | nindent 4 }}
---
{{- end -}}
