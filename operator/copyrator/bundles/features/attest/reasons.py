"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import FAILURE, INFO, NOTHING, SUCCESS, WARNING, Reason

# fmt: off


class AttestReason(Reason):
    """Reasons of the condition Attested."""

    ATTESTED = ("Attested", "attest", SUCCESS, "the registry has the statement about what runs", NOTHING)
    ATTESTING = ("Attesting", "attest", INFO, "a statement about what runs is being signed and pushed", NOTHING)
    SOAKING = ("Soaking", "attest", INFO, "what runs hasn't [stood](promotion.md#attest-what-stands-here) for `spec.attest.after`, or isn't Healthy", "nothing: it will be attested once it has stood")
    ATTESTATION_WITHDRAWN = ("AttestationWithdrawn", "attest", WARNING, "the statement about what runs was withdrawn", "correct what the message names; what runs is attested again once it has stood anew")
    ATTEST_KEY_INVALID = ("AttestKeyInvalid", "attest", FAILURE, "the private key of `spec.attest` is missing, can't be used, or is trusted for signatures", "create or correct the Secret with the private key that the message names; a key that is trusted for signatures can't attest")
    ENVIRONMENT_NOT_ALLOWED = ("EnvironmentNotAllowed", "attest", FAILURE, "by the operator's settings the namespace may not attest under this name", "an administrator adds the namespace to the environment in `attest.environments` of the chart, or use another name")


# fmt: on
REASONS: Final = (AttestReason,)
