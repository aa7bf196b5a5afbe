{{/*
What the operator may do where it serves rules and Bundles; docs/security.md explains each.
*/}}
{{- define "copyrator.permissions" -}}
# Rules and Bundles: watched; finalizers and forceUpdate are patched; status is a separate permission,
# because whoever may write it can forge state.
- apiGroups: [flant.com]
  resources: [copyrators]
  verbs: [list, watch, patch]
- apiGroups: [operator.werf.dev]
  resources: [bundles]
  verbs: [get, list, watch, patch]
- apiGroups: [flant.com]
  resources: [copyrators/status]
  verbs: [patch]
# Setting the marks of copies, where the admission policy requires it (marks.yaml).
- apiGroups: [flant.com]
  resources: [copyrators]
  verbs: [mark]
- apiGroups: [operator.werf.dev]
  resources: [bundles/status]
  verbs: [patch]
# What rules may copy: rules.kinds.
{{ include "copyrator.rulesForKinds" (dict "kinds" .Values.rules.kinds "verbs" (list "get" "list" "watch" "create" "update" "patch" "delete")) | trim }}
{{- with .Values.rules.bindClusterRoles }}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: {{ toJson . }}
  verbs: [bind]
{{- end }}
{{- if or .Values.rules.consumers .Values.rules.restart }}
# Of rules with spec.rollout: the workloads that use their copies.
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets]
  verbs: {{ if .Values.rules.restart }}[get, list, patch]{{ else }}[get, list]{{ end }}
{{- end }}
# What Bundles refer to: values, credentials and service accounts, read only.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
{{- with .Values.bundles.allowedSecrets }}
- apiGroups: [""]
  resources: [secrets]
  {{- if not (has "*" .) }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get, list, watch]
{{- end }}
{{- if .Values.bundles.plans.enabled }}
# Immutable Secrets that Jobs mount: of Bundles with plans the values and the planned operations, of
# an auth with several registries' credentials the one of the Bundle's registry, and of Bundles with a
# provider the token for it.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, delete, deletecollection]
{{- end }}
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get]
{{- if .Values.bundles.workloadIdentity.enabled }}
{{- with .Values.bundles.allowedServiceAccounts }}
# Of Bundles with spec.provider: tokens of their account, for a cloud. Without names it would be every account.
- apiGroups: [""]
  resources: [serviceaccounts/token]
  resourceNames: {{ toJson . }}
  verbs: [create]
{{- end }}
{{- end }}
# Deploy and uninstall Jobs, and their pods.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch]
{{- if .Values.bundles.health.enabled }}
# Of Bundles with spec.health: the objects of releases. Jobs are above.
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets]
  verbs: [list, watch]
{{- end }}
{{- if .Values.bundles.permissionReviews.enabled }}
# Of Bundles with their release in another namespace: whether their service account may deploy there.
- apiGroups: [authorization.k8s.io]
  resources: [localsubjectaccessreviews]
  verbs: [create]
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# The count of an existing Event is increased.
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end -}}
