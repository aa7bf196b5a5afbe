"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from copyrator.api.reasons import INFO, NOTHING, SUCCESS, WARNING, Reason

# fmt: off


class DriftReason(Reason):
    """Reasons of a Bundle's condition Drifted, beside those of its Ready condition."""

    IN_SYNC = ("InSync", "drift", SUCCESS, "nothing has drifted", NOTHING)
    DRIFTED = ("Drifted", "drift", WARNING, "the objects in the message aren't as they were deployed", "`copyrator reconcile bundle -n NAMESPACE NAME --force` restores what was deployed; with `spec.drift.mode: Correct` the operator does")
    RENDERED_DIFFERENTLY = ("RenderedDifferently", "drift", WARNING, "objects have drifted, and the chart may render differently now than when it was deployed, so that the correction waits for approval", "read the plan of the correction and approve it; a chart that renders differently each time isn't corrected by itself ([drift](drift.md))")
    DRIFT_RECURRING = ("DriftRecurring", "drift", WARNING, "the same objects drifted again after two corrections, so no more are made", "find out what changes them ([corrections](drift.md#corrections)), or name them in `spec.drift.ignore`")
    UNCHECKED = ("Unchecked", "drift", INFO, "what is deployed hasn't been compared yet", "wait")
    NOT_AS_DEPLOYED = ("NotAsDeployed", "drift", INFO, "the spec or the values aren't the deployed ones, or the last deploy failed", "see `Ready`: it is compared after the next deploy that succeeds")
    BLIND_APPLY = ("BlindApply", "drift", INFO, "dry runs are refused, mostly because a permission of the Job's service account was taken away", "the log of the check's Job says why; check the permissions of its service account")
    BASELINE_UNREADABLE = ("BaselineUnreadable", "drift", INFO, "the operator may not read the Secret with the baseline", "allow it: `bundles.allowedSecrets` of the chart")
