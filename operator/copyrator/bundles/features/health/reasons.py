"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from copyrator.api.reasons import BY_PERSON, INFO, NOTHING, SUCCESS, WARNING, Reason

# fmt: off


class HealthReason(Reason):
    """Reasons of a Bundle's condition Healthy."""

    HEALTHY = ("Healthy", "health", SUCCESS, "all objects are current, or the release has none of these kinds", NOTHING)
    UNHEALTHY = ("Unhealthy", "health", WARNING, "an object has failed; or it isn't current, has been so for 10 minutes and no deploy is running", "repair the objects that the message names, or push a version that does")
    PROGRESSING = ("Progressing", "health", INFO, "an object isn't current yet, for example during a rollout", "wait")
    NOT_DEPLOYED = ("NotDeployed", "health", INFO, "nothing is deployed yet, the release is in another namespace, or another Bundle owns it", "see `Ready`")
    RELEASE_NOT_ACCEPTED = ("ReleaseNotAccepted", "consent", INFO, "the release is in another namespace, which hasn't [accepted it](bundles.md#a-release-in-another-namespace): nothing is read there", "see `Ready`")
    OTHER_MANAGER = ("OtherManager", "health", INFO, "the objects bear another value of the label by which they are watched", "remove the label from the Bundle", BY_PERSON)
    FORBIDDEN = ("Forbidden", "health", INFO, "the operator lacks a permission, or doesn't serve the namespace", "switch `bundles.health.enabled` of the chart on; `copyrator doctor` lists all missing permissions", BY_PERSON)
    UNCHECKED = ("Unchecked", "health", INFO, "the objects haven't been listed, or can't be watched now; or one is too large to be read", "wait")
