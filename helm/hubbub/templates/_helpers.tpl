{{- define "hubbub.fullname" -}}
{{- $name := include "hubbub.name" . -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}{{ else if contains $name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "hubbub.name" -}}
{{ .Values.nameOverride | default "hubbub" }}
{{- end }}

{{/* Annotations of an object, or nothing: (dict "root" $ "own" (dict ...)). Those of the object win */}}
{{- define "hubbub.annotations" -}}
{{- with merge (dict) (.own | default dict) .root.Values.commonAnnotations -}}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "hubbub.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/name: {{ include "hubbub.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with omit .Values.commonLabels "helm.sh/chart" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "app.kubernetes.io/component" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select the pods of one command: (dict "root" $ "component" "worker") */}}
{{- define "hubbub.selector" -}}
app.kubernetes.io/name: {{ include "hubbub.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "hubbub.image" -}}
{{ with .Values.global.imageRegistry }}{{ . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "hubbub.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "hubbub.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "hubbub.queries" -}}
{{ .Values.queries.existing | default (printf "%s-queries" (include "hubbub.fullname" .)) }}
{{- end }}

{{- define "hubbub.queries.data" -}}
{{- if not (regexMatch "(?m)^\\s*(\\[\\s*[\"']?queries[\"']?\\s*\\.|[\"']?queries[\"']?\\s*[.=])" .Values.queries.file) }}
{{- fail "queries.file: the text defines no query, so it is no query file: give it a table [queries.NAME], for example by --set-file queries.file=hubbub.toml" }}
{{- end -}}
hubbub.toml: |
  {{- .Values.queries.file | nindent 2 }}
{{- range $name, $text := .Values.queries.more }}
{{ $name }}: |
  {{- $text | nindent 2 }}
{{- end }}
{{- end }}

{{/* Security settings of a container, for the Pod Security Standard "restricted" */}}
{{- define "hubbub.kept" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Fields of a pod's metadata and of its spec that the values add: (dict "root" $ "values" .Values.worker) */}}
{{- define "hubbub.pod.labels" -}}
{{- with .values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "hubbub.pod.spec" -}}
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {name: {{ . }}}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Port of health and metrics. Strangers reach the ports of a gateway and a board, so these have one more, of this number */}}
{{- define "hubbub.healthPort" -}}
8805
{{- end }}

{{/* Environment variables for Kafka and the login */}}
{{- define "hubbub.kafka.env" -}}
{{- $kafka := .Values.kafka -}}
- {name: HUBBUB_KAFKA, value: {{ $kafka.servers | quote }}}
- {name: HUBBUB_PREFIX, value: {{ $kafka.prefix | quote }}}
- {name: HUBBUB_KAFKA_SECURITY_PROTOCOL, value: {{ $kafka.protocol | quote }}}
{{- if hasPrefix "SASL_" $kafka.protocol }}
- {name: HUBBUB_KAFKA_SASL_MECHANISM, value: {{ required "kafka.mechanism: set the mechanism, because kafka.protocol is SASL" $kafka.mechanism | quote }}}
{{- if and (ne $kafka.mechanism "OAUTHBEARER") $kafka.tokenCommand }}
{{- fail "kafka.tokenCommand has no effect with this mechanism: set kafka.mechanism to OAUTHBEARER" }}
{{- end }}
{{- if and (eq $kafka.mechanism "OAUTHBEARER") $kafka.tokenCommand }}
{{- if $kafka.tokenSecret.name }}
{{- fail "kafka: tokenCommand and tokenSecret are both set: keep one of them" }}
{{- end }}
- {name: HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND, value: {{ $kafka.tokenCommand | quote }}}
{{- else if eq $kafka.mechanism "OAUTHBEARER" }}
- {name: HUBBUB_KAFKA_OAUTH_TOKEN_FILE, value: /run/secrets/kafka/token}
{{- else }}
- {name: HUBBUB_KAFKA_USERNAME, value: {{ required "kafka.username: set the user name, because the mechanism needs one" $kafka.username | quote }}}
- {name: HUBBUB_KAFKA_PASSWORD_FILE, value: /run/secrets/kafka/password}
{{- end }}
{{- else if or $kafka.mechanism $kafka.username $kafka.passwordSecret.name $kafka.tokenSecret.name $kafka.tokenCommand }}
{{- fail "kafka: mechanism, username, passwordSecret, tokenSecret and tokenCommand have no effect without SASL: set kafka.protocol to SASL_SSL or SASL_PLAINTEXT" }}
{{- end }}
{{- if $kafka.caSecret.name }}
- {name: HUBBUB_KAFKA_CA_FILE, value: /run/secrets/kafka/ca.crt}
{{- end }}
{{- if $kafka.certSecret.name }}
- {name: HUBBUB_KAFKA_CERT_FILE, value: /run/secrets/kafka/tls.crt}
- {name: HUBBUB_KAFKA_KEY_FILE, value: /run/secrets/kafka/tls.key}
{{- end }}
{{- if and (not (hasSuffix "SSL" $kafka.protocol)) (or $kafka.caSecret.name $kafka.certSecret.name) }}
{{- fail "kafka: caSecret and certSecret have no effect without TLS: set kafka.protocol to SSL or SASL_SSL" }}
{{- end }}
{{- end }}

{{/* Secrets of Kafka as sources of one projected volume, empty without secrets */}}
{{- define "hubbub.kafka.sources" -}}
{{- $kafka := .Values.kafka }}
{{- if hasPrefix "SASL_" $kafka.protocol }}
{{- if and (eq $kafka.mechanism "OAUTHBEARER") $kafka.tokenCommand }}
{{- else if eq $kafka.mechanism "OAUTHBEARER" }}
- secret: {name: {{ required "kafka.tokenSecret.name: name the secret with the token, or set kafka.tokenCommand" $kafka.tokenSecret.name }}, items: [{key: {{ $kafka.tokenSecret.key }}, path: token}]}
{{- else }}
- secret: {name: {{ required "kafka.passwordSecret.name: name the secret with the password" $kafka.passwordSecret.name }}, items: [{key: {{ $kafka.passwordSecret.key }}, path: password}]}
{{- end }}
{{- end }}
{{- with $kafka.caSecret }}
{{- if .name }}
- secret: {name: {{ .name }}, items: [{key: {{ .key }}, path: ca.crt}]}
{{- end }}
{{- end }}
{{- with $kafka.certSecret }}
{{- if .name }}
- secret: {name: {{ .name }}, items: [{key: {{ .cert }}, path: tls.crt}, {key: {{ .key }}, path: tls.key}]}
{{- end }}
{{- end }}
{{- end }}

{{/* Volumes of a container. Its user is not fixed, so everybody in it may read: (dict "root" $ "queries" true "secrets" (list (dict "name" "board" "secret" "x" "items" (list ...)))) */}}
{{- define "hubbub.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 2Gi}}
{{- if .queries }}
- {name: queries, configMap: {name: {{ .queries }}}}
{{- end }}
{{- with include "hubbub.kafka.sources" .root }}
- name: kafka
  projected:
    defaultMode: 0444
    sources: {{- . | nindent 6 }}
{{- end }}
{{- range .secrets }}
- name: {{ .name }}
  secret: {secretName: {{ .secret }}, defaultMode: 0444, items: {{ toJson .items }}}
{{- end }}
{{- with (.values | default dict).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "hubbub.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .queries }}
- {name: queries, mountPath: /etc/hubbub, readOnly: true}
{{- end }}
{{- if include "hubbub.kafka.sources" .root }}
- {name: kafka, mountPath: /run/secrets/kafka, readOnly: true}
{{- end }}
{{- range .secrets }}
- {name: {{ .name }}, mountPath: /run/secrets/{{ .name }}, readOnly: true}
{{- end }}
{{- with (.values | default dict).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
Pod template of a long-running command:
(dict "root" $ "component" "worker" "values" .Values.worker "port" 8801 "env" "..." "queries" NAME "secrets" (list) "grace" 15 "public" true)
"public" is true if strangers reach the port. Health and metrics then have a port of their own, and there is a liveness probe.
*/}}
{{- define "hubbub.pod" -}}
{{- $root := .root -}}
{{- $probed := ternary "health" "http" (default false .public) -}}
metadata:
  labels:
    {{- include "hubbub.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- include "hubbub.pod.labels" . | nindent 4 }}
  annotations:
    {{- if and .queries (not $root.Values.queries.existing) }}
    checksum/queries: {{ include "hubbub.queries.data" $root | sha256sum }}
    {{- end }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "hubbub.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false # hubbub would read them as HUBBUB_... variables
  terminationGracePeriodSeconds: {{ .grace }}
  {{- include "hubbub.pod.spec" . | nindent 2 }}
  topologySpreadConstraints:
    {{- with .values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "hubbub.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
    {{- end }}
  {{- with .values.initContainers }}
  initContainers: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "hubbub.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ .component }}]
      env:
        {{- include "hubbub.kafka.env" $root | nindent 8 }}
        {{- if .queries }}
        - {name: HUBBUB_QUERIES, value: /etc/hubbub/hubbub.toml}
        {{- end }}
        {{- if .public }}
        - {name: HUBBUB_HEALTH_PORT, value: {{ include "hubbub.healthPort" $root | quote }}}
        {{- end }}
        - {name: HUBBUB_LOG, value: {{ $root.Values.log.form }}}
        - {name: HUBBUB_LOG_LEVEL, value: {{ $root.Values.log.level }}}
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.lifecycle }}
      lifecycle: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: {{ .port }}}
        {{- if .public }}
        - {name: health, containerPort: {{ include "hubbub.healthPort" $root }}}
        {{- end }}
      readinessProbe: {{- merge (dict "httpGet" (dict "path" "/readyz" "port" $probed)) .values.readinessProbe | toYaml | nindent 8 }}
      {{- if .public }}
      livenessProbe: {{- merge (dict "httpGet" (dict "path" "/healthz" "port" $probed)) .values.livenessProbe | toYaml | nindent 8 }}
      {{- end }}
      resources: {{- toYaml .values.resources | nindent 8 }}
      securityContext: {{- include "hubbub.kept" $root | nindent 8 }}
      volumeMounts: {{- include "hubbub.mounts" . | nindent 8 }}
    {{- with .values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes: {{- include "hubbub.volumes" . | nindent 4 }}
{{- end }}

{{/* Bytes of a size such as 768Mi, 1GiB or 1073741824, or nothing if it has another form */}}
{{- define "hubbub.bytes" -}}
{{- if not (kindIs "string" .) }}
{{- float64 . }}
{{- else }}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 }}
{{- $unit := regexReplaceAll "^[0-9.]+" . "" | trimSuffix "B" }}
{{- if hasKey $units $unit }}
{{- mulf (regexFind "^[0-9.]+" . | float64) (get $units $unit) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Disruption budget, if it is switched on: (dict "root" $ "component" "worker" "values" .Values.worker) */}}
{{- define "hubbub.budget" -}}
{{- if .values.disruptionBudget -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "hubbub.fullname" .root }}-{{ .component }}
  labels: {{- include "hubbub.labels" .root | nindent 4 }}
  {{- include "hubbub.annotations" (dict "root" .root) | nindent 2 }}
spec:
  maxUnavailable: {{ .values.maxUnavailable }}
  # Pods that wait, for example for Kafka, do not stop a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "hubbub.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* Ingress: (dict "root" $ "component" "board" "values" .Values.board.ingress "path" "/") */}}
{{- define "hubbub.ingress" -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ include "hubbub.fullname" .root }}-{{ .component }}
  labels: {{- include "hubbub.labels" .root | nindent 4 }}
  {{- include "hubbub.annotations" (dict "root" .root "own" .values.annotations) | nindent 2 }}
spec:
  {{- with .values.class }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .values.tlsSecret }}
  tls:
    - hosts: [{{ $.values.host | quote }}]
      secretName: {{ . }}
  {{- end }}
  rules:
    - host: {{ required (printf "%s.ingress.host: set the host name of the ingress" .component) .values.host | quote }}
      http:
        paths:
          - path: {{ .path }}
            pathType: Prefix
            backend:
              service: {name: {{ include "hubbub.fullname" .root }}-{{ .component }}, port: {name: http}}
{{- end }}

{{/* HTTPRoute: (dict "root" $ "component" "board" "values" .Values.board.httpRoute "port" 8803 "path" "/") */}}
{{- define "hubbub.httpRoute" -}}
{{- if not .values.parentRefs }}
{{- fail (printf "%s.httpRoute.parentRefs: name the Gateway that serves the route" .component) }}
{{- end -}}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {{ include "hubbub.fullname" .root }}-{{ .component }}
  labels: {{- include "hubbub.labels" .root | nindent 4 }}
  {{- include "hubbub.annotations" (dict "root" .root "own" .values.annotations) | nindent 2 }}
spec:
  parentRefs: {{- toYaml .values.parentRefs | nindent 4 }}
  {{- with .values.hostnames }}
  hostnames: {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - matches: [{path: {type: PathPrefix, value: {{ .path }}}}]
      backendRefs: [{name: {{ include "hubbub.fullname" .root }}-{{ .component }}, port: {{ .port }}}]
{{- end }}

{{/* Address of the runbooks: that of the values, else the board's */}}
{{- define "hubbub.runbooks" -}}
{{- $board := .Values.board -}}
{{- if .Values.monitoring.rules.runbooks -}}
{{ .Values.monitoring.rules.runbooks }}
{{- else if not $board.enabled -}}
{{ fail "monitoring.rules.runbooks: set the address of the runbooks, because there is no board to serve them" }}
{{- else if $board.ingress.enabled -}}
{{ ternary "https" "http" (ne $board.ingress.tlsSecret "") }}://{{ $board.ingress.host }}/runbooks
{{- else -}}
http://{{ include "hubbub.fullname" . }}-board.{{ .Release.Namespace }}.svc:8803/runbooks
{{- end -}}
{{- end }}

{{/* Service of health and metrics, which stays inside the cluster: (dict "root" $ "component" "board") */}}
{{- define "hubbub.healthService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "hubbub.fullname" .root }}-{{ .component }}-health
  labels:
    {{- include "hubbub.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  {{- include "hubbub.annotations" (dict "root" .root) | nindent 2 }}
spec:
  selector: {{- include "hubbub.selector" . | nindent 4 }}
  ports:
    - {name: health, port: {{ include "hubbub.healthPort" .root }}, targetPort: health}
{{- end }}

{{/* Service: (dict "root" $ "component" "board" "port" 8803) */}}
{{- define "hubbub.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "hubbub.fullname" .root }}-{{ .component }}
  labels:
    {{- include "hubbub.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  {{- include "hubbub.annotations" (dict "root" .root "own" (.service | default dict).annotations) | nindent 2 }}
spec:
  type: {{ (.service | default dict).type | default "ClusterIP" }}
  selector: {{- include "hubbub.selector" . | nindent 4 }}
  ports:
    - {name: http, port: {{ .port }}, targetPort: http}
{{- end }}

{{/* Name of the secret with the board's token, or empty if the board is open. */}}
{{- define "hubbub.board.secret" -}}
{{- with .Values.board }}
{{- if not .open }}
{{- .token.secret | default (printf "%s-board-token" (include "hubbub.fullname" $)) }}
{{- end }}
{{- end }}
{{- end }}
