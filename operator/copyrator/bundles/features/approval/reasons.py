"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from copyrator.api.reasons import FAILURE, INFO, NOTHING, SUCCESS, Reason

# fmt: off


class StoredReason(Reason):
    """Reasons of a Bundle's condition AsApproved."""

    AS_APPROVED = ("AsApproved", "approval", SUCCESS, "what was stored is what was approved", NOTHING)
    EXACT = ("Exact", "approval", SUCCESS, "the plan that was approved is the one that werf applied", "nothing; as the plan was [exact](approval.md#exact-plans), nothing had to be compared")
    DEPLOYED_DIFFERENTLY = ("DeployedDifferently", "approval", FAILURE, "what was stored isn't what was approved", "contents differ, or there is an object or a hook more or less: see what was stored, find out what the chart draws or looks up, and push another version")
    RENDERS_DIFFER = ("RendersDiffer", "approval", INFO, "the chart rendered differently each time it was planned, so what was stored can't be compared", "make the chart render the same each time ([bound plans](approval.md#bound-plans))")
    NOTHING_STORED = ("NothingStored", "approval", INFO, "werf found nothing to change and stored nothing, and the revision before isn't equal to what was approved", "nothing; it is so with annotations that werf passes over")
    NOT_SUPPORTED = ("NotSupported", "approval", INFO, "this version of werf can't be asked what it has stored, and the plan wasn't exact", "nothing: werf 3 can't be asked; see what makes a plan [exact](approval.md#exact-plans)")
    UNREADABLE = ("Unreadable", "approval", INFO, "what was stored, or the log of the Job, couldn't be read", "nothing; it is so, too, where the container was killed")
