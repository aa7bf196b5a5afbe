{{/*
Null, Helm's way to delete a default, gives a section or a value of one its default again: templates
read them, and no protection is switched off by being deleted. Each template includes this first.
The namespace whose rules are trusted, where the operator keeps the key of its hashes too, is the
release's by default.
*/}}
{{- define "copyrator.defaults" -}}
{{- include "copyrator.complete" (list .Values (.Files.Get "files/defaults.json" | fromJson)) -}}
{{- include "copyrator.prune" (omit .Values "global") -}}
{{- $_ := set .Values.rules "namespace" (default .Release.Namespace .Values.rules.namespace) -}}
{{- end -}}

{{/* What is still null was deleted by who set it, such as a value of a chart that has this one as a dependency. */}}
{{- define "copyrator.prune" -}}
{{- $values := . -}}
{{- range $name, $value := . -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $values $name -}}
{{- else if kindIs "map" $value -}}
{{- include "copyrator.prune" $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* In defaults a map of free form is under "*": it is never completed, only taken whole. */}}
{{- define "copyrator.complete" -}}
{{- $values := first . -}}
{{- range $name, $default := last . -}}
{{- $given := not (kindIs "invalid" (index $values $name)) -}}
{{- if not (kindIs "map" $default) -}}
{{- if not $given }}{{ $_ := set $values $name $default }}{{ end -}}
{{- else if hasKey $default "*" -}}
{{- if not $given }}{{ $_ := set $values $name (index $default "*") }}{{ end -}}
{{- else -}}
{{- if not $given }}{{ $_ := set $values $name dict }}{{ end -}}
{{- include "copyrator.complete" (list (index $values $name) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The chart's name, at most 63 characters. */}}
{{- define "copyrator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name that the release's objects share: the release's own where it says copyrator already. */}}
{{- define "copyrator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "copyrator.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Cluster-wide names carry the namespace, so that two installations never share a ClusterRole. */}}
{{- define "copyrator.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "copyrator.fullname" .) -}}
{{- end -}}

{{/* The same for what must be a DNS name; a namespace's name has no dots. */}}
{{- define "copyrator.policyName" -}}
{{- printf "%s.%s.copyrator.flant.com" (include "copyrator.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "copyrator.approvalPolicyName" -}}
{{- printf "%s.%s.bundles.operator.werf.dev" (include "copyrator.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* Holds a Job to its approved operations. The binding has the same name. */}}
{{- define "copyrator.guardPolicyName" -}}
{{- printf "%s.%s.guard.operator.werf.dev" (include "copyrator.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* Protects the lists of these operations. */}}
{{- define "copyrator.guardListsPolicyName" -}}
{{- printf "%s.%s.guard-lists.operator.werf.dev" (include "copyrator.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "copyrator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "copyrator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create=false requires serviceAccount.name: an existing service account" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What people read of a deploy: its Job, and the log with the diff of its plan. */}}
{{- define "copyrator.readJobs" -}}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end -}}

{{/* A setting's variable: its text, made of the value; empty where it isn't set. */}}
{{- define "copyrator.variable" -}}
{{- $value := first . -}}
{{- range splitList "." (last .).value -}}
{{- $value = index $value . -}}
{{- end -}}
{{- if kindIs "slice" $value -}}
{{- $value = join "," $value -}}
{{- else if kindIs "map" $value -}}
{{- $value = include "copyrator.pairs" $value -}}
{{- else if kindIs "float64" $value -}}
{{- $value = ternary (int64 $value) $value (eq (floor $value) $value) -}}
{{- end -}}
{{- toString $value | default (get (last .) "none") -}}
{{- end -}}

{{/* KEY=VALUE, in a fixed order; a key has as many values as its list. */}}
{{- define "copyrator.pairs" -}}
{{- $pairs := list -}}
{{- range $key, $values := . -}}
{{- range kindIs "slice" $values | ternary $values (list $values) -}}
{{- $pairs = append $pairs (printf "%s=%s" $key .) -}}
{{- end -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "copyrator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "copyrator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "copyrator.labels" -}}
{{- include "copyrator.labelsWith" (list . dict) -}}
{{- end -}}

{{/* No label twice: Flux and Kustomize refuse that. The selector's can't be replaced. */}}
{{- define "copyrator.labelsWith" -}}
{{- $top := first . -}}
{{- $standard := dict "app.kubernetes.io/version" $top.Chart.AppVersion "app.kubernetes.io/managed-by" $top.Release.Service -}}
{{- $_ := set $standard "helm.sh/chart" (printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_") -}}
{{- $selector := include "copyrator.selectorLabels" $top | fromYaml -}}
{{- toYaml (merge $selector (last . | default dict) ($top.Values.commonLabels | default dict) $standard) -}}
{{- end -}}

{{- define "copyrator.image" -}}
{{- $released := ternary "" (get .Values.image.digests .Values.image.variant) (ne .Values.image.tag "") -}}
{{- with .Values.image.digest | default $released -}}
{{- printf "%s@%s" $.Values.image.repository . -}}
{{- else -}}
{{- $suffix := ternary "" (printf "-%s" .Values.image.variant) (eq .Values.image.variant "plain") -}}
{{- printf "%s:%s%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) $suffix -}}
{{- end -}}
{{- end -}}

{{- define "copyrator.replicas" -}}
{{- if kindIs "invalid" .Values.replicaCount -}}{{ .Values.replicas }}{{- else -}}{{ .Values.replicaCount }}{{- end -}}
{{- end -}}

{{/*
Both pass the restricted Pod Security profile by default. OpenShift chooses the ids itself: its SCC
restricted-v2 rejects a pod that sets others than those of the namespace's range.
*/}}
{{- define "copyrator.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext | default dict -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{- define "copyrator.containerSecurityContext" -}}
{{- toYaml (.Values.securityContext | default dict) -}}
{{- end -}}

{{/*
"true" where the API server serves v1 of admission policies. Without a cluster (`helm template`) Helm
knows no resource but those of --api-versions: then the version of Kubernetes decides.
*/}}
{{- define "copyrator.servesPolicies" -}}
{{- $known := .Capabilities.APIVersions.Has "apps/v1/Deployment" -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
true
{{- else if and (not $known) (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
true
{{- end -}}
{{- end -}}

{{/*
RBAC rules that give .verbs on each of .kinds ("Secret", "RoleBinding.rbac.authorization.k8s.io"),
one rule for each API group, in a fixed order so that an upgrade shows no false differences.
The plural is Kubernetes' own guess (meta.UnsafeGuessKindToResource), which is right for every
built-in kind.
*/}}
{{- define "copyrator.rulesForKinds" -}}
{{- $groups := dict -}}
{{- range .kinds -}}
{{- $parts := splitn "." 2 (first (splitList "/" .)) -}}
{{- $group := $parts._1 | default "" -}}
{{- $_ := set $groups $group (append (get $groups $group | default list) (include "copyrator.plural" $parts._0)) -}}
{{- end -}}
{{- range $group := keys $groups | sortAlpha }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ get $groups $group | uniq | sortAlpha | toJson }}
  verbs: {{ $.verbs | toJson }}
{{- end -}}
{{- end -}}

{{/* The same kinds as an admission policy names them, with their status. */}}
{{- define "copyrator.resourcesForKinds" -}}
{{- $groups := dict -}}
{{- range . -}}
{{- $parts := splitn "." 2 (first (splitList "/" .)) -}}
{{- $group := $parts._1 | default "" -}}
{{- $plural := include "copyrator.plural" $parts._0 -}}
{{- $_ := set $groups $group (concat (get $groups $group | default list) (list $plural (printf "%s/status" $plural))) -}}
{{- end -}}
{{- range $group := keys $groups | sortAlpha }}
- apiGroups: [{{ $group | quote }}]
  apiVersions: ["*"]
  resources: {{ get $groups $group | uniq | sortAlpha | toJson }}
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end -}}
{{- end -}}

{{- define "copyrator.plural" -}}
{{- $kind := lower . -}}
{{- if eq $kind "endpoints" -}}
{{- $kind -}}
{{- else if hasSuffix "s" $kind -}}
{{- $kind -}}es
{{- else if hasSuffix "y" $kind -}}
{{- trimSuffix "y" $kind -}}ies
{{- else -}}
{{- $kind -}}s
{{- end -}}
{{- end -}}
