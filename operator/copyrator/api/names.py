"""Every label, annotation, finalizer and constant of this operator in clusters.

They are API: changing one orphans what older versions wrote.
"""

from __future__ import annotations

from typing import Final

FIELD_MANAGER: Final = "copyrator"
"""Field manager of every write."""

# Copy rules -------------------------------------------------------------------------------------

RULE_GROUP: Final = "flant.com"
RULE_VERSION: Final = "v1"
RULE_API_VERSION: Final = f"{RULE_GROUP}/{RULE_VERSION}"
RULE_KIND: Final = "CopyratorRule"
RULE_PLURAL: Final = "copyrators"

RULE_PREFIX: Final = "copyrator.flant.com/"
"""Prefix of our own labels and annotations on rules, sources, copies and Namespaces."""

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "copyrator"
"""Value of LABEL_MANAGED_BY on every copy: the selector of our metadata watch."""

ANN_RULE: Final = "copyrator.flant.com/rule"
"""On a copy: ``namespace/name`` of the rule that owns it (too long for a label)."""
ANN_SOURCE: Final = "copyrator.flant.com/source"
"""On a copy: ``namespace/name`` of its source; absent on a template's copy."""
ANN_HASH: Final = "copyrator.flant.com/content-hash"
"""On a copy: keyed hash of the content that we wrote."""
ANN_REFERENCES: Final = "copyrator.flant.com/references"
"""On a copy of a ServiceAccount: which of its imagePullSecrets are ours."""
ANN_RULES: Final = "copyrator.flant.com/rules"
"""On an Event about several rules of its namespace: their names, comma-separated."""

LABEL_IGNORE: Final = "copyrator.flant.com/ignore"
"""On a Namespace, value ``true``: no rule may copy into it."""
ANN_ALLOW_FROM: Final = "copyrator.flant.com/allow-from"
"""On a Namespace: comma-separated globs of namespaces whose tenant rules may copy into it."""
ANN_ALLOW_TO: Final = "copyrator.flant.com/allow-to"
"""On a source: comma-separated globs of namespaces that it may be copied to."""

ANN_WEBHOOK: Final = "copyrator.flant.com/webhook"
"""On the Lease: the address of its holder's webhook for the other replicas."""
ANN_SEEN_TIME: Final = "copyrator.flant.com/seen-time"
"""On the Lease: since when a leader renews it, and the gaps since; see api.seen_time."""

ANN_RULE_REQUESTED_AT: Final = "copyrator.flant.com/requestedAt"
"""On a rule, any new value: reconcile it now and retry what failed."""

ANN_RULE_RESEAL_AT: Final = "copyrator.flant.com/resealAt"
"""On a rule, any value: overwrite objects with the rule's marks and no valid seal where the rule
wants a copy. The operator removes it when that is done.
"""

ANN_CONFIRM_DELETE: Final = "copyrator.flant.com/confirm-delete"
"""On a rule: the generation whose deletions are confirmed (``spec.maxDelete``)."""

ANN_SOURCE_CLUSTER: Final = "copyrator.flant.com/source-cluster"
"""On a rule: the uid (or CA) of the other cluster that its sources may come from now."""

ANN_ROLLOUT_RESUME: Final = "copyrator.flant.com/rollout-resume"
"""On a rule: ``CONTENT-STARTEDAT-STEP``, as in its status: the rollout stopped there continues."""
ANN_ROLLOUT_FINISH: Final = "copyrator.flant.com/rollout-finish"
"""On a rule: ``CONTENT-STARTEDAT``, as in its status: this rollout has no further steps."""
RULE_REQUEST: Final = 256
"""Characters that are read of each of these annotations of a rule; they are copied to the status.
"""
ANN_RESTART: Final = "copyrator.flant.com/restart"
"""On a Deployment, StatefulSet or DaemonSet, value ``true``: it is restarted when a copy that its
pods use has new content, where the copy's rule restarts consumers.
"""
ANN_RESTARTED_FOR: Final = "copyrator.flant.com/restarted-for"
"""On such a workload: the content that it was last restarted for, by rule."""

LABEL_REMOTE: Final = "copyrator.flant.com/remote"
"""On what `copyrator remote grant` makes: ``NAMESPACE.NAME`` of the service account."""

FINALIZER_RULE: Final = "copyrator.flant.com/cleanup"

# Bundles ----------------------------------------------------------------------------------------

BUNDLE_GROUP: Final = "operator.werf.dev"
BUNDLE_VERSION: Final = "v1"
BUNDLE_API_VERSION: Final = f"{BUNDLE_GROUP}/{BUNDLE_VERSION}"
BUNDLE_KIND: Final = "Bundle"
BUNDLE_PLURAL: Final = "bundles"

BUNDLE_PREFIX: Final = "operator.werf.dev/"
BUNDLE_REQUEST: Final = 1024
"""Characters that are read of a Bundle's annotation with this prefix; those of a request such as
requestedAt are copied to the status."""

ANN_DISABLE_AUTOUPDATE: Final = "operator.werf.dev/disable-autoupdate"
"""On a Bundle, any value: no request to the registry and no update until it is removed."""
ANN_NOTIFY_TEST: Final = "operator.werf.dev/notify-test"
"""On the ConfigMap copyrator-notifications: the name of an entry, a blank and the time; it is sent
a test message."""
ANN_FREEZE: Final = "operator.werf.dev/freeze"
"""On a Namespace, any value: no deploy begins in it; see bundles.features.freeze.fields."""
ANN_REQUESTED_AT: Final = "operator.werf.dev/requestedAt"
"""On a Bundle, any new value: poll now and deploy the result, even if it is deployed already or
quarantined. What to use in place of ``status.forceUpdate``.
"""
ANN_FORCE_AT: Final = "operator.werf.dev/forceAt"
"""On a Bundle, any new value: the same, with an echo of its own in the status. It skips the gates
minAge, dependsOn and windows.
"""
ANN_SKIP_DIGESTS: Final = "operator.werf.dev/skip-digests"
"""On a Bundle: digests, separated by commas, that are never deployed."""
ANN_PIN: Final = "operator.werf.dev/pin"
"""On a Bundle: ``VERSION@DIGEST``, which was deployed before and is deployed instead of what the
spec names; NO_PIN ends that. The newest value that was seen counts, also once it is removed.
"""
NO_PIN: Final = "none"
ANN_FORCE_DELETE: Final = "operator.werf.dev/force-delete"
"""On a Bundle that is being deleted, value ``true``: remove the finalizer without uninstalling."""
ANN_PLAN_AT: Final = "operator.werf.dev/plan-at"
"""On a Bundle, any new value: make the plan of the next deploy again, even while another one waits
for a decision.
"""
ANN_PLAN_VERSION: Final = "operator.werf.dev/plan-version"
"""On a Bundle, beside plan-at: a tag or range, as in ``spec.version``, that is planned instead of
what would be deployed. Such a plan is only shown.
"""
ANN_APPROVED_PLAN: Final = "operator.werf.dev/approved-plan"
"""On a Bundle: the ID of the plan in its status, which may be deployed then."""
ANN_REJECTED_PLAN: Final = "operator.werf.dev/rejected-plan"
"""On a Bundle: the ID of the plan in its status, which isn't deployed then."""
ANN_APPROVED_BY: Final = "operator.werf.dev/approved-by"
"""On a Bundle, beside one of these two: the user's name, which the chart's policy compares."""
ANN_REJECTION_REASON: Final = "operator.werf.dev/rejection-reason"
"""On a Bundle, beside rejected-plan: why, as text; set with it."""
ANN_HOLD: Final = "operator.werf.dev/hold"
"""On a Bundle, any value: the reason why what is deployed isn't promoted; its soak ends."""
ANN_WITHDRAW: Final = "operator.werf.dev/withdraw"
"""On a Bundle with ``spec.attest``, ``[TIME] [DIGEST] REASON``, any new value: withdraw what it has
attested of this digest, by default of what is deployed; the time only makes the value a new one.
The digest is attested again once it has stood anew. Echo: ``status.lastHandledWithdrawal``.
"""
ANN_PROMOTE_TO: Final = "operator.werf.dev/promote-to"
"""On a Bundle: comma-separated globs of namespaces whose Bundles may be promoted from it."""
ANN_ACCEPT_FROM: Final = "operator.werf.dev/accept-from"
"""On a Namespace: comma-separated globs of namespaces whose Bundles may deploy releases into it."""
ANN_REGISTRY: Final = "operator.werf.dev/registry"
"""On a Secret with username and password: the registry that these may be sent to."""
ANN_DEPLOYMENT: Final = "operator.werf.dev/deployment"
"""On a Job: the Bundle's name (an annotation, as the original wrote it)."""

LABEL_BUNDLE: Final = "operator.werf.dev/bundle"
"""On a Job, and on a Secret of ours: the Bundle's name; at most 53 characters, so it always fits a
label.
"""
LABEL_JOB_KIND: Final = "operator.werf.dev/job"
"""On a Job: ``deploy``, ``plan`` or ``uninstall``."""
LABEL_SEALED_FOR: Final = "operator.werf.dev/sealed-for"
"""On a Secret of ours: the Job that it is for; see bundles.engine.sealed."""
LABEL_SEAL: Final = "operator.werf.dev/seal"
"""On such a Secret: ``values`` or ``operations``."""
ANN_BUNDLE_UID: Final = "operator.werf.dev/bundle-uid"
"""On a Job: the uid of its Bundle; an uninstall Job has no owner reference with it."""
LABEL_GUARD: Final = "operator.werf.dev/guard"
"""On a ConfigMap in the namespace of the operator's pod: the Job that it holds to the operations
listed in it. The chart's policies select it; nobody else may write such a ConfigMap.
"""
ANN_ATTEMPT: Final = "operator.werf.dev/attempt"
"""On a Job: the number of its attempt."""
ANN_GENERATION: Final = "operator.werf.dev/generation"
"""On an uninstall Job: the generation of the Bundle that it was created for."""
ANN_GIVEN_UP: Final = "operator.werf.dev/given-up"
"""On a Job that couldn't start: ``true`` where the spec that it was created for was edited,
``PlanChanged`` where a Secret that was made for it was deleted, ``Frozen`` where deploys were
frozen before its pod had started.
"""
ANN_WERF_ENDED: Final = "operator.werf.dev/werf-ended"
"""On a Job that its deadline ends because containers of others keep its pod running: when werf had
ended. The Job's own condition is Failed then, whatever the outcome in the Bundle's status.
"""
ANN_DIGEST: Final = "operator.werf.dev/digest"
"""On a Job: its manifest digest."""
ANN_LOGIN_EXPIRES: Final = "operator.werf.dev/login-expires"
"""On a Job, and on the Secret with its login of a cloud: when the first token, or the one in that
Secret, expires."""
ANN_LOGIN_RENEWED: Final = "operator.werf.dev/login-renewed"
"""On a Job whose login was written anew: its pod may have the former one."""
ANN_VALUES: Final = "operator.werf.dev/values"
"""On a Job with copies of values: what they are of, in their order, as `ConfigMap/NAME`."""
JOB_MARKS: Final = (ANN_LOGIN_EXPIRES, ANN_LOGIN_RENEWED, ANN_VALUES)
"""What features write on Jobs, and read there."""
ANN_SERVER: Final = "operator.werf.dev/server"
"""On a Job: the API server of its release, where that is the one of spec.kubeConfig."""

ATTEST_SECRET: Final = "copyrator-attest-key"  # noqa: S105 - a name
"""The Secret in the operator's namespace with its key for attestations, ``key.pem``, and the
password of an encrypted one, ``password``.
"""
ATTEST_KEY: Final = "key.pem"
ATTEST_PASSWORD: Final = "password"  # noqa: S105 - a name

FINALIZER_BUNDLE: Final = "operator.werf.dev/uninstall"
FINALIZER_KOPF: Final = "kopf.zalando.org/KopfFinalizerMarker"
"""The original werf operator's finalizer: add ours, then remove this one (docs/adoption.md)."""
KOPF_PREFIX: Final = "kopf.zalando.org/"
"""Prefix of kopf's annotations that the originals left."""

RELEASE_METADATA_PREFIXES: Final = (
    "app.kubernetes.io/",
    "app.k8s.io/",
    "argocd.argoproj.io/",
)
"""Labels and annotations of a Bundle under these prefixes are set on the release's objects."""

HELM: Final = "Helm"
"""Value of LABEL_MANAGED_BY on the objects of a release."""
ANN_RELEASE: Final = "meta.helm.sh/release-name"
ANN_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
ANN_HOOK: Final = "helm.sh/hook"
"""On an object that isn't a lasting part of its release."""

MAX_RELEASE_NAME: Final = 53
"""Helm's limit for a release's name, and so for a Bundle's."""

RESERVED_ENV: Final = frozenset(
    {
        "HOME",
        "TMPDIR",
        "DOCKER_CONFIG",
        "WERF_BUILDAH_MODE",
        "WERF_DEPLOY_REPORT_PATH",
        "WERF_DOCKER_CONFIG",
        "WERF_NAMESPACE",
        "WERF_PASSWORD",
        "WERF_RELEASE",
        "WERF_REPO",
        "WERF_SAVE_DEPLOY_REPORT",
        "WERF_TAG",
        "WERF_TELEMETRY",
        "WERF_USERNAME",
    }
)
"""Variables that the operator sets on every Job and that ``spec.env`` can't replace."""

SECRET_KEY_ENV: Final = "WERF_SECRET_KEY"  # noqa: S105 - a name
"""The key of secret values in ``spec.env``; ``spec.secretKey`` is its good form."""

RESERVED_ENV_PREFIX: Final = "WERF_VALUES_OPERATOR_"


def is_reserved_env(name: str) -> bool:
    """Whether the operator sets this variable itself."""
    return name in RESERVED_ENV or name.startswith(RESERVED_ENV_PREFIX)
