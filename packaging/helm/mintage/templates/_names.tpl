{{- define "mintage.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- if not (contains "mintage" .Release.Name) }}-mintage{{ end -}}
{{- end }}

{{- define "mintage.selector" -}}
app.kubernetes.io/name: mintage
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "mintage.labels" -}}
{{ include "mintage.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* mintage.yaml: what the chart decides, under what config says. */}}
{{- define "mintage.config" -}}
{{- $c := dict
  "public_url" .Values.publicURL
  "listen" "0.0.0.0:8443"
  "management" (dict "listen" "0.0.0.0:9000")
  "data" "/var/lib/mintage/data"
  "audit" (dict "max_size" "2GiB")
-}}
{{- if .Values.database.url }}{{ $_ := set $c "store" .Values.database.url }}{{ end -}}
{{- if .Values.database.existingSecret }}{{ $_ := set $c "store_password_file" (printf "/etc/mintage/database-password/%s" .Values.database.passwordKey) }}{{ end -}}
{{- if .Values.kek.existingSecret }}{{ $_ := set $c "kek_file" (printf "/etc/mintage/kek/%s" .Values.kek.key) }}{{ end -}}
{{- if .Values.tls.existingSecret }}{{ $_ := set $c "tls" (dict "cert" "/etc/mintage/tls/tls.crt" "key" "/etc/mintage/tls/tls.key") }}{{ end -}}
{{- if .Release.IsInstall }}{{ $_ := set $c "new_store" true }}{{ end -}}
{{- if .Values.trustedProxies }}{{ $_ := set $c "trusted_proxies" .Values.trustedProxies }}{{ end -}}
{{- mergeOverwrite $c (deepCopy .Values.config) | toYaml -}}
{{- end }}

{{/* What cannot work is refused here, and not by a pod that does not start. */}}
{{- define "mintage.check" -}}
{{- if not .Values.publicURL }}{{ fail "publicURL is missing: the address that clients use, such as https://auth.example.com" }}{{ end -}}
{{- if and .Values.database.url (not .Values.kek.existingSecret) }}{{ fail "kek.existingSecret is missing: with a database, every pod needs the same key-encryption key" }}{{ end -}}
{{- if and (not .Values.tls.existingSecret) (not .Values.trustedProxies) }}{{ fail "set tls.existingSecret, or trustedProxies if TLS ends before the pod" }}{{ end -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (add 10 (int .Values.preStopSeconds)) }}{{ fail "terminationGracePeriodSeconds must be more than preStopSeconds and the ten seconds of a stop" }}{{ end -}}
{{- end }}

{{- define "mintage.pod" -}}
metadata:
  annotations:
    # A changed configuration is a rollout.
    checksum/config: {{ include "mintage.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
  labels:
    {{- include "mintage.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "mintage.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # Not at each start: it would open the store's files to the group.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: mintage
      image: "{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/mintage/mintage.yaml]
      ports:
        - {name: public, containerPort: 8443}
        - {name: management, containerPort: 9000}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      startupProbe:
        httpGet: {path: /livez, port: management}
        periodSeconds: 2
        failureThreshold: 150 # a new version may have to change a large store first
      livenessProbe:
        httpGet: {path: /livez, port: management}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: management}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 1
      lifecycle:
        preStop:
          sleep: {seconds: {{ .Values.preStopSeconds }}}
      resources: {{ toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /var/lib/mintage}
        - {name: config, mountPath: /etc/mintage/mintage.yaml, subPath: mintage.yaml, readOnly: true}
        {{- if .Values.kek.existingSecret }}
        - {name: kek, mountPath: /etc/mintage/kek, readOnly: true}
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - {name: tls, mountPath: /etc/mintage/tls, readOnly: true}
        {{- end }}
        {{- if .Values.database.existingSecret }}
        - {name: database-password, mountPath: /etc/mintage/database-password, readOnly: true}
        {{- end }}
        {{- if .Values.database.caSecret }}
        - {name: database-ca, mountPath: /etc/mintage/database, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "mintage.name" . }}}
    {{- if .Values.database.url }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- if .Values.kek.existingSecret }}
    - name: kek
      secret: {secretName: {{ .Values.kek.existingSecret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ .Values.tls.existingSecret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.database.existingSecret }}
    - name: database-password
      secret: {secretName: {{ .Values.database.existingSecret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.database.caSecret }}
    - name: database-ca
      secret: {secretName: {{ .Values.database.caSecret | quote }}, defaultMode: 0440}
    {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{ include "mintage.selector" . | nindent 10 }}
    {{- end }}
{{- end }}
