{{- define "daybreak.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Name of the objects: the release's name if it contains daybreak; otherwise release-daybreak. */ -}}
{{- define "daybreak.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "daybreak.selectorLabels" -}}
app.kubernetes.io/name: {{ include "daybreak.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "daybreak.labels" -}}
{{ include "daybreak.selectorLabels" . }}
app.kubernetes.io/part-of: daybreak
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "daybreak.prePullLabels" -}}
app.kubernetes.io/name: {{ include "daybreak.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: pre-pull
app.kubernetes.io/part-of: daybreak
{{- end -}}

{{- define "daybreak.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "daybreak.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Watched namespaces, as JSON. An empty list means all namespaces. */ -}}
{{- define "daybreak.namespaces" -}}
{{- $listed := .Values.watch.namespaces | default list -}}
{{- if kindIs "string" $listed -}}
{{- $listed = list $listed -}}
{{- end -}}
{{- if and .Values.watch.namespaced (not $listed) -}}
{{- $listed = list .Release.Namespace -}}
{{- end -}}
{{- $listed | uniq | toJson -}}
{{- end -}}

{{- /* True if the operator reads nodes, which are cluster-scoped. */ -}}
{{- define "daybreak.watchesNodes" -}}
{{- if and .Values.watch.nodes (not .Values.watch.namespaced) -}}true{{- end -}}
{{- end -}}

{{- /* True if gateways prove their identity by tokens: token reviews are cluster-scoped. */ -}}
{{- define "daybreak.reviewsTokens" -}}
{{- if and .Values.gateway.enabled (empty (include "daybreak.namespaces" . | fromJsonArray)) -}}true{{- end -}}
{{- end -}}

{{- /* Name of cluster-scoped objects: releases in two namespaces may have the same name. */ -}}
{{- define "daybreak.clusterName" -}}
{{- printf "%s-%s" (include "daybreak.fullname" . | trunc 40 | trimSuffix "-") .Release.Namespace | trunc 56 | trimSuffix "-" -}}
{{- end -}}

{{- define "daybreak.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "daybreak.rayImage" -}}
{{- default (printf "daybreak-ray:%s" .Chart.AppVersion) .Values.rayImage -}}
{{- end -}}

{{- define "daybreak.rayCpuImage" -}}
{{- default (printf "daybreak-ray-cpu:%s" .Chart.AppVersion) .Values.rayCpuImage -}}
{{- end -}}

{{- define "daybreak.gatewayImage" -}}
{{- if .Values.gateway.enabled -}}
{{- default (printf "daybreak-gateway:%s" .Chart.AppVersion) .Values.gateway.image -}}
{{- end -}}
{{- end -}}

{{- /* Settings of the gateway pods, as JSON, without empty values. */ -}}
{{- define "daybreak.gatewayPods" -}}
{{- $pods := dict -}}
{{- range $name := list "pullPolicy" "resources" "agentResources" "nodeSelector" "tolerations" "affinity" "priorityClassName" "topologySpreadConstraints" "metricsAllowFrom" "podTemplate" -}}
{{- with index $.Values.gateway $name -}}
{{- $_ := set $pods $name . -}}
{{- end -}}
{{- end -}}
{{- $pods | toJson -}}
{{- end -}}

{{- /*
Environment of the operator, with all of its settings. To watch the release's namespace, the variable refers
to the pod's namespace, so that a kustomization that moves the objects also moves the watch.
*/ -}}
{{- define "daybreak.env" -}}
- name: DAYBREAK_NAMESPACE
  {{- if and .Values.watch.namespaced (not .Values.watch.namespaces) }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
  {{- else }}
  value: {{ include "daybreak.namespaces" . | fromJsonArray | join "," | quote }}
  {{- end }}
- name: DAYBREAK_WATCH_NODES
  value: {{ include "daybreak.watchesNodes" . | default "false" | quote }}
- name: DAYBREAK_NODE_WAIT
  value: {{ .Values.acceleratorQueue.nodeProvisioningDelay | quote }}
- name: DAYBREAK_OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: DAYBREAK_KUBERAY_NAMESPACE
  value: {{ .Values.kuberay.namespace | quote }}
- name: DAYBREAK_RAY_IMAGE
  value: {{ include "daybreak.rayImage" . | quote }}
- name: DAYBREAK_RAY_CPU_IMAGE
  value: {{ include "daybreak.rayCpuImage" . | quote }}
- name: DAYBREAK_RAY_HEAD_IMAGE
  value: {{ default .Values.rayCpuImage .Values.rayHeadImage | quote }}
- name: DAYBREAK_EGRESS
  value: {{ .Values.networkPolicy.egress | toJson | quote }}
- name: DAYBREAK_NETWORK_POLICY
  value: {{ .Values.networkPolicy.enabled | quote }}
- name: DAYBREAK_GATEWAY_IMAGE
  value: {{ include "daybreak.gatewayImage" . | quote }}
- name: DAYBREAK_GATEWAY_PULL_SECRETS
  value: {{ join "," .Values.gateway.imagePullSecrets | quote }}
- name: DAYBREAK_GATEWAY_REPLICAS
  value: {{ .Values.gateway.replicas | quote }}
- name: DAYBREAK_ASSIGNED_USERS
  value: {{ .Values.platformAssignedUsers | quote }}
- name: DAYBREAK_GATEWAY_TOKENS
  value: {{ include "daybreak.reviewsTokens" . | eq "true" | quote }}
- name: DAYBREAK_GATEWAY_PODS
  value: {{ include "daybreak.gatewayPods" . | quote }}
- name: DAYBREAK_ENGINES
  value: {{ .Values.engines | toJson | quote }}
- name: DAYBREAK_ENGINE_METRICS_FROM
  value: {{ .Values.metrics.engines.allowFrom | toJson | quote }}
- name: DAYBREAK_LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
- name: DAYBREAK_HTTP_PORT
  value: "8080"
{{- end -}}

{{- /* Server-side apply rejects two variables of the same name: the error names the value to use. */ -}}
{{- define "daybreak.extraEnv" -}}
{{- $own := dict -}}
{{- range (include "daybreak.env" . | fromYamlArray) -}}
{{- $_ := set $own .name true -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasKey $own .name -}}
{{- fail (printf "extraEnv: %s is set by the chart already or named twice: use the value made for it, or leave it out" .name) -}}
{{- end -}}
{{- $_ := set $own .name true -}}
{{- end -}}
{{- with .Values.extraEnv -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- /* Objects that the operator may write, for admission policies. Argument: the list of operations. */ -}}
{{- define "daybreak.policyRules" -}}
- apiGroups: [ray.io]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [rayservices, rayservices/status, rayjobs, rayclusters]
- apiGroups: [""]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [services, serviceaccounts, persistentvolumeclaims, configmaps]
- apiGroups: [batch]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [jobs]
- apiGroups: [networking.k8s.io]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [networkpolicies]
- apiGroups: [policy]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [poddisruptionbudgets]
- apiGroups: [apps]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [deployments, controllerrevisions]
- apiGroups: [leaderworkerset.x-k8s.io]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [leaderworkersets]
- apiGroups: [rbac.authorization.k8s.io]
  apiVersions: [v1]
  operations: {{ . }}
  resources: [roles, rolebindings]
{{- end -}}
