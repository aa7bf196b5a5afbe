"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import BY_PERSON, INFO, WARNING, Reason

# fmt: off


class PromotionReason(Reason):
    """Reasons of its gate."""

    NOT_PROMOTED = ("NotPromoted", "promotion", INFO, "the version hasn't been deployed for long enough where spec.promoteFrom requires it", "nothing: it is deployed after its [soak](promotion.md#what-a-soak-is) in the Bundles, or with the [evidence](promotion.md#from-other-clusters) of the environments, that the message names")
    PROMOTION_NOT_ALLOWED = ("PromotionNotAllowed", "promotion", INFO, "the version may not be promoted from a Bundle of spec.promoteFrom", "the owner of the Bundle that the message names allows your namespace by the [annotation](promotion.md#who-may-promote-from-where) `operator.werf.dev/promote-to`; or correct the name", BY_PERSON)
    PROMOTION_WITHDRAWN = ("PromotionWithdrawn", "promotion", INFO, "the version was withdrawn in an environment of spec.promoteFrom.attestations", "publish a newer version: the environment that the message names [withdrew](promotion.md#from-other-clusters) this one; or it attests it anew", BY_PERSON)
    PROMOTION_HELD = ("PromotionHeld", "promotion", INFO, "the version is held in a Bundle of spec.promoteFrom", "whoever held the source ends the [hold](promotion.md#hold-a-version), or a newer version is published", BY_PERSON)


class PromotionEvent(Reason):
    """Reasons of Events that no condition has."""

    SOAK_BROKEN = ("SoakBroken", "promotion", WARNING, "a version is no longer promoted from this Bundle", "correct what the message names; the version is promoted once it has [stood](promotion.md#what-a-soak-is) anew")


# fmt: on
REASONS: Final = (PromotionReason,)
EVENTS: Final = (PromotionEvent,)
