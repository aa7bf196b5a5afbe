"""The reasons of Bundles, but for those that features have in their folders."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import (
    BY_PERSON,
    BY_WORK,
    DOCTOR,
    FAILURE,
    INFO,
    NOTHING,
    READY_BEFORE,
    SUCCESS,
    WARNING,
    Reason,
)

# Features
ENGINE, REGISTRY, LOGIN, CLUSTER, CONSENT = "engine", "registry", "login", "cluster", "consent"
SIGNATURES, FREEZE, APPROVAL = "signatures", "freeze", "approval"
DRIFT, ROLLBACK, ATTEST = "drift", "rollback", "attest"
_WAIT: Final = "wait; if the message says that the Job is suspended by a queue, see why [the queue](where-it-runs.md#queues) holds it back"

# fmt: off


class BundleReason(Reason):
    """Reasons of a Bundle's conditions, gates and attempts."""

    DEPLOYED = ("Deployed", ENGINE, SUCCESS, "the version is deployed", NOTHING)
    POLLING = ("Polling", ENGINE, INFO, "the registry is asked for versions", _WAIT, BY_WORK)
    DEPLOYING = ("Deploying", ENGINE, INFO, "a Job deploys a version", _WAIT, BY_WORK)
    UNINSTALLING = ("Uninstalling", ENGINE, INFO, "the Bundle is deleted, and its release is uninstalled", _WAIT, BY_WORK)
    UP_TO_DATE = ("UpToDate", ENGINE, SUCCESS, "no version waits for a gate", NOTHING)
    SUSPENDED = ("Suspended", ENGINE, INFO, "`spec.suspend` is true", f"run `copyrator resume bundle NAME`; {READY_BEFORE}")
    AUTOUPDATE_DISABLED = ("AutoupdateDisabled", ENGINE, INFO, "the annotation `operator.werf.dev/disable-autoupdate` is set", f"remove the annotation; {READY_BEFORE}")
    INVALID_SPEC = ("InvalidSpec", ENGINE, FAILURE, "the spec has a fault, or the operator's settings forbid it", "correct the field that the message names")
    AUTHENTICATION_FAILED = ("AuthenticationFailed", REGISTRY, FAILURE, "the registry doesn't accept the credentials, of the operator or of werf", "correct the Secret in `spec.auth`; the operator detects the change. With `spec.provider` give the account the right that the message names ([clouds](clouds.md#when-it-fails)). If the message says that the registry redirects, set `spec.registry` to the host that it names. If it says that the credentials weren't sent, the registry doesn't ask for any there: check `spec.registry` and `spec.repo`. Where approval is required, its username and password need [an annotation](trust.md#credentials-of-registries)")
    IDENTITY_MISSING = ("IdentityMissing", LOGIN, FAILURE, "the account of `spec.provider` has no identity of that cloud, or it can't be used here", "add what the message names: the annotation of the service account, the right `bundles.workloadIdentity` of the chart, or the library (`image.variant: clouds`)")
    IDENTITY_REFUSED = ("IdentityRefused", LOGIN, FAILURE, "the cloud of `spec.provider` refuses the identity", "correct the cloud's trust in the service account: the message says which account and which name its token has")
    IDENTITY_UNAVAILABLE = ("IdentityUnavailable", LOGIN, FAILURE, "the cloud's server that gives tokens doesn't answer", "wait, or fix what the message names: the operator's way to the cloud's token server or metadata server")
    TOKEN_EXPIRED = ("TokenExpired", LOGIN, FAILURE, "the token of `spec.provider` in a Job's Secret had expired when the registry refused it", "wait: the next Job gets a new token. If it happens again, let the cloud's tokens live longer, or find out what makes the Job take so long")
    REGISTRY_UNREACHABLE = ("RegistryUnreachable", REGISTRY, FAILURE, "the registry doesn't answer the operator or werf, or not as it should", "fix what the message names: address, TLS, proxy, or [a refused address](settings.md#where-requests-go). Ready becomes False only when polls [go on to fail](bundles.md#when-polls-fail)")
    RATE_LIMITED = ("RateLimited", REGISTRY, FAILURE, "the registry asks for fewer requests", "wait: the operator polls again, no earlier than the registry requests")
    TAG_NOT_FOUND = ("TagNotFound", REGISTRY, FAILURE, "the registry doesn't have the tag", "push a version that matches `spec.version`, or correct it; the command `resolve` shows why tags are rejected")
    NO_MATCHING_VERSION = ("NoMatchingVersion", REGISTRY, FAILURE, "the registry has no version that matches the spec", "push a version that matches `spec.version`, or correct it; the command `resolve` shows why tags are rejected. `NotAVersion` means that a tag [isn't a version](bundles.md#which-tags-are-versions)")
    REPOSITORY_NOT_FOUND = ("RepositoryNotFound", REGISTRY, FAILURE, "the repository doesn't exist, or the credentials may not see it", "correct `spec.registry` or `spec.repo`, or push a version to it; a registry that hides repositories needs credentials that may read it (`spec.auth`, `spec.provider`). For an exact tag many registries only say that the tag isn't there: `TagNotFound`")
    WOULD_DOWNGRADE = ("WouldDowngrade", REGISTRY, FAILURE, "the registry has only lower versions than the deployed one", "push a newer version, or set `spec.version` to the lower version ([details](bundles.md#when-a-tag-is-deleted-from-the-registry))")
    FORBIDDEN = ("Forbidden", ENGINE, FAILURE, "the operator lacks a permission", DOCTOR)
    VALUES_MISSING = ("ValuesMissing", ENGINE, FAILURE, "values don't exist, are too large, or were deleted before the pod started", "create the ConfigMap, Secret or key that the message names, or reduce its size; the deploy continues then")
    SERVICE_ACCOUNT_MISSING = ("ServiceAccountMissing", ENGINE, FAILURE, "the service account doesn't exist, or was deleted before the pod started", "create the service account, and the deploy continues; the chart does this for the namespaces in `werf.namespaces`")
    JOB_UNSCHEDULABLE = ("JobUnschedulable", ENGINE, FAILURE, "no node accepts the pod, a container can't start, or pods can't be created", "fix what the message names; the deploy continues")
    IMAGE_PULL_FAILED = ("ImagePullFailed", ENGINE, FAILURE, "the werf image can't be pulled", "fix what the message names; the deploy continues")
    JOB_LOST = ("JobLost", ENGINE, FAILURE, "the Job was deleted, its pod evicted or killed, or the operator died before it created the Job (reported 10 s later, because another replica may be about to create it)", "nothing: a new Job is created")
    TIMED_OUT = ("TimedOut", ENGINE, FAILURE, "the Job was still running 5 minutes after `spec.timeout`, which is werf's own limit", "nothing: the deploy is retried")
    DEPLOY_FAILED = ("DeployFailed", ENGINE, FAILURE, "werf couldn't deploy the version", "fix the cause that the message names first; all of werf's log: `copyrator logs bundle -n NAMESPACE NAME`; the deploy is retried. \"werf 3 checks this\": [what werf 3 refuses](bundles.md#when-a-deploy-fails)")
    QUARANTINED = ("Quarantined", ENGINE, FAILURE, "the version failed so often that it isn't retried", "push a working version, edit the spec or the values, or run `copyrator reconcile bundle NAME`")
    DEPENDENCIES_NOT_VENDORED = ("DependenciesNotVendored", ENGINE, FAILURE, "the chart lacks dependencies that werf would download at each run", "run `helm dependency update` before the bundle is published, so that the chart's `charts/` has all dependencies")
    RELEASE_CONFLICT = ("ReleaseConflict", ENGINE, FAILURE, "the release is another Bundle's", "delete one of the Bundles, or rename it ([release ownership](bundles.md#release-ownership))")
    NAMESPACE_CHANGED = ("NamespaceChanged", ENGINE, FAILURE, "the spec names another namespace or cluster than the release is in", "set `spec.project_namespace`, or the server of `spec.kubeConfig`, back, or delete and recreate the Bundle")
    UNINSTALL_FAILED = ("UninstallFailed", ENGINE, FAILURE, "the release of a deleted Bundle can't be uninstalled", "fix what the message names; the uninstall is retried ([what it may be](bundles.md#deletion)). For missing permissions: `copyrator why NAME --kind bundle --roles`")
    RELEASE_NOT_ACCEPTED = ("ReleaseNotAccepted", CONSENT, FAILURE, "the release's namespace doesn't accept it", "who owns the release's namespace runs the command that the message names, or binds a role that may create Secrets there to the Bundle's service account ([consent](bundles.md#a-release-in-another-namespace)); or correct `spec.project_namespace`")
    KUBE_CONFIG_INVALID = ("KubeConfigInvalid", CLUSTER, FAILURE, "the Secret of `spec.kubeConfig` is missing, has no kubeconfig that is allowed, or has ended", "correct the Secret of [`spec.kubeConfig`](bundles.md#a-release-in-another-cluster) as the message says; the Bundle goes on at once. The condition `CertificateExpiring` warns before a token or certificate ends")
    CLUSTER_UNREACHABLE = ("ClusterUnreachable", CLUSTER, FAILURE, "the API server of `spec.kubeConfig` doesn't answer, or doesn't accept its credential", "see whether the server of the message answers from the Jobs' pods, and accepts the credential; deploys and plans are tried again, and nothing counts against the version")
    PINNED = ("Pinned", ROLLBACK, INFO, "a user rolled back, so no other version is deployed", "nothing while the version that was rolled back to should stay; to end that: `copyrator unpin bundle -n NAMESPACE NAME` ([roll back](rollback.md))", BY_PERSON)
    PIN_REFUSED = ("PinRefused", ROLLBACK, FAILURE, "the annotation `operator.werf.dev/pin` names what mustn't be rolled back to", "pin a version that the history has as deployed from this repository: `copyrator rollback bundle -n NAMESPACE NAME --to VERSION`; the message says what is wrong with the annotation", BY_PERSON)
    VERIFIED = ("Verified", SIGNATURES, SUCCESS, "the version has a signature that is trusted", NOTHING)
    UNSIGNED = ("Unsigned", SIGNATURES, INFO, "the version has no signature", "sign the digest that the message names; the operator finds the signature at its next poll ([signatures](signatures.md))")
    SIGNATURE_INVALID = ("SignatureInvalid", SIGNATURES, FAILURE, "the version has no signature that is trusted", "sign the digest with a key or certificate that is trusted, or correct `spec.verify` or the signature policy")
    VERIFICATION_UNAVAILABLE = ("VerificationUnavailable", SIGNATURES, FAILURE, "the version has signatures that can't be read or judged now", "fix what the message names: the registry, an attestation in it that can't be read, a ConfigMap or Secret with keys, or the signature policy; it is tried again, and nothing is deployed meanwhile")
    NOT_IN_POLICY = ("NotInPolicy", SIGNATURES, INFO, "the version has a repository that the operator's signature policy doesn't name", "an administrator adds the repository to the [signature policy](signatures.md#the-signature-policy)")
    PUSH_REFUSED = ("PushRefused", ATTEST, FAILURE, "the registry doesn't take an attestation", "allow the registry's user to push, or what the message names: room, the artifact type, tags that may be overwritten; deploys go on")
    FROZEN = ("Frozen", FREEZE, INFO, "deploys are frozen: those of the Bundle's namespace, of its release's, or all", "nothing, or run `copyrator thaw -n NAMESPACE` or `copyrator thaw --all`: the message names what is frozen, by whom, why, and until when", BY_PERSON)
    FREEZE_UNREADABLE = ("FreezeUnreadable", FREEZE, WARNING, "whether deploys are frozen, or for how long, can't be read", "correct or remove the annotation or ConfigMap that the message names, or grant the permission: until then no deploy begins ([freezes](bundles.md#stop-deploys-for-a-while))", BY_PERSON)
    PLANNING = ("Planning", APPROVAL, INFO, "the deploy is planned first", "nothing. If no plan is begun, `Ready` says why, or other plans run: `--max-plan-jobs` in all, half of them in one namespace")
    AWAITING_APPROVAL = ("AwaitingApproval", APPROVAL, INFO, "a plan waits for a decision", "read the plan with `copyrator plan bundle NAME`, then run `copyrator approve bundle NAME` or `copyrator reject bundle NAME`", BY_PERSON)
    PLAN_REJECTED = ("PlanRejected", APPROVAL, INFO, "somebody has rejected the plan", "push another version, edit the spec or the values, or approve it: `copyrator approve bundle NAME`")
    PLAN_CHANGED = ("PlanChanged", APPROVAL, INFO, "what would be done isn't what was planned or approved; nothing was deployed", "nothing: the deploy is planned again; it waits for approval again if it does more than was approved, or where an [exact](approval.md#exact-plans) plan that isn't bound differs from the approved one")
    PLAN_FAILED = ("PlanFailed", APPROVAL, FAILURE, "the plan couldn't be made", "read `copyrator logs bundle -n NAMESPACE NAME --plan`; the plan is made again", BY_PERSON)
    PLAN_UNSTABLE = ("PlanUnstable", APPROVAL, FAILURE, "plans failed or changed too often", "fix what the message names; edit the spec or the values, or run `copyrator plan bundle NAME --refresh`", BY_PERSON)
    PLAN_UNBOUND = ("PlanUnbound", APPROVAL, INFO, "the plan isn't bound, and the operator's settings require bound plans", "change what the message names, so that the plan is [enforced](approval.md#enforced-plans) and [bound](approval.md#bound-plans) or [exact](approval.md#exact-plans), or ask an administrator about `bundles.requireBoundPlans`")
    EXCEEDS_APPROVAL = ("ExceedsApproval", APPROVAL, FAILURE, "the deploy tried to write what wasn't approved, and the API server refused it", "the message names what the deploy tried to write beyond its plan; find out why the chart does that, and push a version whose plan shows it")
    DEPLOYED_DIFFERENTLY = ("DeployedDifferently", APPROVAL, FAILURE, "what was stored for the release isn't what was approved ([as approved](approval.md#as-approved))", "see what was stored, find out what the chart draws or looks up, roll back if that wasn't done, and push another version")
    GUARD_NOT_ACTIVE = ("GuardNotActive", APPROVAL, FAILURE, "the API server doesn't hold the Job to what was approved; nothing was deployed", "ask an administrator whether the policy that the message names is there, with its binding. Once the binding was deleted and made anew, the API servers have to be restarted")
    CHART_NOT_PLAIN = ("ChartNotPlain", APPROVAL, FAILURE, "the chart may be read in several ways, so no approval says what is deployed", "change the line of the chart that the message names, and publish it again ([plain charts](bundles.md#plain-charts))")
    NOT_KNOWN_HARMLESS = ("NotKnownHarmless", APPROVAL, INFO, "a gated Bundle has settings that its Jobs don't get (condition `SettingsWithheld`)", "use what the message names in place of the settings that a [gated Bundle's Jobs](approval.md#what-a-gated-bundles-jobs-get) don't get")


class Rejection(Reason):
    """Why a tag was rejected: reasons of ``status.available.rejected``, beside those of gates."""

    OUT_OF_RANGE = ("OutOfRange", REGISTRY, INFO, "the version isn't in the range {wanted}", "correct `spec.version`")
    PRE_RELEASE = ("PreRelease", REGISTRY, INFO, "the version is a pre-release; spec.prerelease: true admits them", "set `spec.prerelease`")
    FILTERED = ("Filtered", REGISTRY, INFO, "the version doesn't match spec.tagFilter", "correct `spec.tagFilter`")
    QUARANTINED = ("Quarantined", ENGINE, FAILURE, "the version failed too often; {retry} retries it", "push a working version, or retry it")
    LOWER_THAN_DEPLOYED = ("LowerThanDeployed", REGISTRY, INFO, "the version is lower than the deployed version; to downgrade, set spec.version to it", "push a newer version")
    NOT_A_VERSION = ("NotAVersion", REGISTRY, INFO, "the version isn't a version: {message}", "name tags as [versions](bundles.md#which-tags-are-versions); the highest of those that look like one is listed, the others are counted")


class BundleEvent(Reason):
    """Reasons of Events about Bundles, their namespaces and freezes that no condition has."""

    UNINSTALLED = ("Uninstalled", ENGINE, INFO, "the release of a deleted Bundle is uninstalled", NOTHING)
    UNINSTALL_NOT_ENFORCED = ("UninstallNotEnforced", APPROVAL, WARNING, "an uninstall isn't held to what plans had", "the message says why ([enforced plans](approval.md#enforced-plans))")
    RELEASE_KEPT = ("ReleaseKept", ENGINE, INFO, "a deleted Bundle's release is another Bundle's, and stays", NOTHING)
    RELEASE_ORPHANED = ("ReleaseOrphaned", ENGINE, WARNING, "a release stays without its Bundle", "uninstall it by hand, if nobody needs it ([deletion](bundles.md#deletion))")
    RELEASE_TAKEN_OVER = ("ReleaseTakenOver", CONSENT, INFO, "the Bundle takes over a release that its namespace hadn't accepted from another one", NOTHING)
    CONSENT_ASSUMED = ("ConsentAssumed", CONSENT, WARNING, "a release in another namespace counts as accepted, as an operator that didn't ask for consent had deployed it", "accept or refuse it as the message says ([consent](bundles.md#a-release-in-another-namespace))")
    PLAN_APPROVED = ("PlanApproved", APPROVAL, INFO, "somebody has approved the plan", NOTHING)
    THAWED = ("Thawed", FREEZE, INFO, "a freeze has ended", NOTHING)
    GATES_PASSED_OVER = ("GatesPassedOver", ENGINE, INFO, "a forced deploy or a rollback ignores gates", NOTHING)
    DRIFT_CORRECTED = ("DriftCorrected", DRIFT, INFO, "objects that had drifted are as they were deployed again", NOTHING)
