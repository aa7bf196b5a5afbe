"""What notifications are told about, and the reasons of Events about them."""

# ruff: noqa: E501 - a table: a row is one line

from copyrator.api.reasons import (
    BY_RESOLUTION,
    FAILURE,
    INFO,
    NOTHING,
    SUCCESS,
    WARNING,
    Reason,
)

# Features
ENGINE, APPROVAL, DRIFT, SIGNATURES, HEALTH = "engine", "approval", "drift", "signatures", "health"
FREEZE, ATTEST, CERTIFICATES, NOTIFY = "freeze", "attest", "certificates", "notify"
COPIES, ROLLOUT = "copies", "rollout"

# fmt: off


class About(Reason):
    """What an entry can be told about: when it is told, and what ends it."""

    DEPLOYED = ("Deployed", ENGINE, SUCCESS, "a deploy has succeeded", NOTHING)
    DEPLOY_FAILED = ("DeployFailed", ENGINE, FAILURE, "an attempt has failed; each attempt is told", "when a deploy succeeds", BY_RESOLUTION)
    ROLLED_BACK = ("RolledBack", ENGINE, FAILURE, "a failed deploy was rolled back (`spec.autoRollback`)", NOTHING)
    QUARANTINED = ("Quarantined", ENGINE, FAILURE, "the version failed so often that it isn't retried", "when a deploy succeeds", BY_RESOLUTION)
    DEPLOYED_DIFFERENTLY = ("DeployedDifferently", APPROVAL, FAILURE, "a deploy stored something else than what was approved ([as approved](approval.md#as-approved))", "when another deploy is as approved, or can't be compared", BY_RESOLUTION)
    AWAITING_APPROVAL = ("AwaitingApproval", APPROVAL, INFO, "a plan waits for a decision", NOTHING)
    PLAN_REJECTED = ("PlanRejected", APPROVAL, INFO, "a plan was rejected", NOTHING)
    DRIFTED = ("Drifted", DRIFT, WARNING, "objects aren't as they were deployed", "yes", BY_RESOLUTION)
    UNTRUSTED = ("Untrusted", SIGNATURES, FAILURE, "what runs doesn't satisfy the signature requirements", "yes", BY_RESOLUTION)
    UNHEALTHY = ("Unhealthy", HEALTH, WARNING, "with `spec.health`: objects aren't healthy", "yes", BY_RESOLUTION)
    FROZEN = ("Frozen", FREEZE, INFO, "a version or an edit waits because of a freeze", "yes", BY_RESOLUTION)
    ATTESTED = ("Attested", ATTEST, SUCCESS, "with `spec.attest`: the registry has the statement about what runs", NOTHING)
    NOT_ATTESTED = ("NotAttested", ATTEST, WARNING, "with `spec.attest`: it can't be signed or pushed, or is withdrawn", "yes", BY_RESOLUTION)
    CERTIFICATE_EXPIRING = ("CertificateExpiring", CERTIFICATES, WARNING, "a certificate in a rule's copies, or the credential of a Bundle's `spec.kubeConfig`, ends soon or has ended", "yes", BY_RESOLUTION)
    ROLLOUT_STOPPED = ("RolloutStopped", ROLLOUT, FAILURE, "a consumer isn't healthy with the new content", "yes", BY_RESOLUTION)
    CONFLICT_PERSISTS = ("ConflictPersists", COPIES, WARNING, "another client changes copies back each time", "yes", BY_RESOLUTION)
    SOURCE_UNREACHABLE = ("SourceUnreachable", NOTIFY, FAILURE, "three polls of a Bundle's registry have failed in a row, or its tag or repository, or a rule's source, isn't there", "yes", BY_RESOLUTION)
    NOT_READY = ("NotReady", NOTIFY, FAILURE, "Ready is False for another reason", "yes", BY_RESOLUTION)


class NoticeEvent(Reason):
    """Reasons of Events about the ConfigMap of notifications."""

    FAILED = ("NotificationFailed", NOTIFY, WARNING, "a [notification](notifications.md) couldn't be sent", "fix what the message names; `copyrator notify test` tries it")
    INVALID = ("NotificationsInvalid", NOTIFY, WARNING, "the ConfigMap of [notifications](notifications.md) has a fault", "correct the field that the message names")
