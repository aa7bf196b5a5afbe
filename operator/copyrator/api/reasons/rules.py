"""The reasons of rules and copies."""

# ruff: noqa: E501 - a table: a row is one line

from copyrator.api.reasons import (
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
COPIES, ROLLOUT, COMPOSITION = "copies", "rollout", "composition"
REMOTES, CERTIFICATES = "remotes", "certificates"

# fmt: off


class RuleReason(Reason):
    """Reasons of a rule's conditions."""

    SYNCED = ("Synced", COPIES, SUCCESS, "all copies are in sync", NOTHING)
    SATISFIED = ("Satisfied", COPIES, SUCCESS, "all copies are in sync, some of them objects of other clients that [already have the content](rules.md#existing-objects-with-the-desired-content)", NOTHING)
    NO_TARGETS = ("NoTargets", COPIES, SUCCESS, "the rule is Ready but matches no namespace", "correct `spec.targets`, or create a matching namespace")
    PROGRESSING = ("Progressing", COPIES, INFO, "sources are read, or copies are written or deleted", "wait; if it stays, the message names what the rule waits for: a watch, memory for sources, a deletion", BY_WORK)
    ROLLING_OUT = ("RollingOut", ROLLOUT, INFO, "changed content is written [in steps](rollouts.md)", "wait: the message says when the next step is due. `copyrator rollout finish rule NAME` ends the waiting", BY_WORK)
    ROLLOUT_STOPPED = ("RolloutStopped", ROLLOUT, FAILURE, "a workload isn't healthy since its copy was changed: no further copy gets the content", "change the source back, repair the workload, or run `copyrator rollout resume rule NAME` ([details](rollouts.md#health))")
    PLANNED = ("Planned", COPIES, INFO, "`mode: Plan` writes no copy", "read `status.plan`; set `mode: Apply` to write the copies")
    SUSPENDED = ("Suspended", COPIES, INFO, "`spec.suspend` is true", f"run `copyrator resume rule NAME`; {READY_BEFORE}")
    DELETION_UNCONFIRMED = ("DeletionUnconfirmed", COPIES, FAILURE, "an edit would delete most of the rule's copies, more than `spec.maxDelete` allows", "correct the rule, or run `copyrator confirm-delete rule NAME` ([details](rules.md#edits-that-would-delete-most-copies))")
    SOURCE_NOT_FOUND = ("SourceNotFound", COPIES, FAILURE, "a source doesn't exist", "create the source; the rule waits for it. Copies of a rule with [`spec.sources`](composed.md) stay as they are until then")
    SOURCE_UNREACHABLE = ("SourceUnreachable", REMOTES, FAILURE, "the cluster of `spec.source.kubeConfig`, or its Secret, can't be used", "the message says why and since when. Copies stay as they are ([rules](rules.md#sources-of-another-cluster))")
    SOURCE_CLUSTER_CHANGED = ("SourceClusterChanged", REMOTES, FAILURE, "another cluster answers behind the kubeconfig", "correct the Secret, or confirm the new cluster by the command in the message ([rules](rules.md#sources-of-another-cluster))")
    TOO_LARGE = ("TooLarge", COMPOSITION, FAILURE, "`spec.sources` selects too many or too large objects", "narrow a selector. Copies stay as they are")
    NOT_TRUSTED = ("NotTrusted", COPIES, FAILURE, "rules of this namespace aren't served", "move the rule into the operator's namespace, or enable tenant rules ([trust](trust.md))")
    INVALID_SPEC = ("InvalidSpec", COPIES, FAILURE, "the spec has a fault", "correct the field that the message names; `copyrator validate -f FILE` shows the line")
    KIND_UNAVAILABLE = ("KindUnavailable", COPIES, FAILURE, "the API server doesn't serve the kind, or the operator may not copy it", "install the kind's CRD, or add the kind to `rules.kinds` of the chart")
    FORBIDDEN = ("Forbidden", COPIES, FAILURE, "the operator lacks a permission", DOCTOR)
    CONFLICT_PERSISTS = ("ConflictPersists", COPIES, WARNING, "another client changes copies back each time; the message names the field and the field manager", "leave the field out, exclude the namespace, or change that client's settings ([rules](rules.md#when-another-client-changes-a-copy-back))")
    PARTIAL_FAILURE = ("PartialFailure", COPIES, FAILURE, "some copies failed. The message names the first one, its reason, how many failed of all, and what to do", "as the message says; `copyrator describe rule NAME` shows up to 20")
    ALL_FAILED = ("AllFailed", COPIES, FAILURE, "no copy is as wanted; the message is as of `PartialFailure`", "as the message says; `copyrator describe rule NAME` shows up to 20")
    INTERNAL_ERROR = ("InternalError", COPIES, FAILURE, "the operator failed to reconcile the rule, and has changed no copy", "report it with the log")


class FailureReason(Reason):
    """Why one copy isn't as wanted: reasons of ``status.failures``, and of Events in its namespace."""

    CONFLICT = ("Conflict", COPIES, FAILURE, "an object that isn't the rule's copy exists, and the message names what differs", "delete it, make it equal, or set `spec.onConflict`; if the message says so, run `copyrator reseal rule NAME`")
    CONFLICT_PERSISTS = ("ConflictPersists", COPIES, FAILURE, "another client changes the copy back each time", "see `ConflictPersists` of a rule")
    TEMPLATE_ERROR = ("TemplateError", COPIES, FAILURE, "the template has an unknown name or exceeds the [limits](rules.md#templates), or a [filter](composed.md#filters) can't read the source", "correct the template that the message quotes, or the source and key that it names")
    QUOTA_EXCEEDED = ("QuotaExceeded", COPIES, FAILURE, "the namespace has no quota left", "raise the namespace's quota, or leave the namespace out by `spec.targets.exclude`")
    ADMISSION_DENIED = ("AdmissionDenied", COPIES, FAILURE, "an admission webhook or policy rejects the copy", "change what the webhook or policy refuses, or leave the namespace out by `spec.targets.exclude`")
    FORBIDDEN = ("Forbidden", COPIES, FAILURE, "the operator lacks a permission", DOCTOR)
    IMMUTABLE = ("Immutable", COPIES, FAILURE, "a field that can't be changed differs", "set `spec.onImmutable: Recreate`")
    NOT_ACCEPTED = ("NotAccepted", COPIES, FAILURE, "the target namespace or the source doesn't allow the copy", "set the annotation `allow-from` or `allow-to` ([consent](trust.md#consent))")
    TOO_LARGE = ("TooLarge", COPIES, FAILURE, "the API server rejects the object's size", "make the object smaller")
    ERROR = ("Error", COPIES, FAILURE, "anything else, such as an API server that can't be reached", "read the message; the write is retried")


class CertificateReason(Reason):
    """Reasons of the condition CertificateExpiring, of both kinds."""

    VALID = ("CertificatesValid", CERTIFICATES, SUCCESS, "no certificate ends soon", NOTHING)
    EXPIRING = ("CertificateExpiring", CERTIFICATES, WARNING, "a certificate in a rule's copies, or the credential of a kubeconfig, ends soon", "renew it at the source")
    EXPIRED = ("CertificateExpired", CERTIFICATES, WARNING, "a certificate in a rule's copies has ended", "renew it at the source")


class FieldsReason(Reason):
    """Reasons of a rule's condition FieldsDropped."""

    UNKNOWN_FIELD = ("UnknownField", COPIES, WARNING, "the API server doesn't know fields of the [template](rules.md#templates), and drops them", "correct their names; `copyrator validate` finds them before the rule is applied")


class RuleEvent(Reason):
    """Reasons of Events about rules that no condition has."""

    COPIES_CHANGED = ("CopiesChanged", COPIES, INFO, "a rule has written or deleted copies; the message says how many, and why", NOTHING)
