"""Whether a release's namespace accepts it, as words. Pure."""

from __future__ import annotations

from copyrator.api.bundle_status import ConsentBy, ConsentState, ConsentStatus
from copyrator.api.names import ANN_ACCEPT_FROM

_BY = {
    ConsentBy.ANNOTATION.value: f"by its annotation {ANN_ACCEPT_FROM}",
    ConsentBy.PERMISSION.value: "as the Job's service account may create Secrets there",
}
_STATES = {
    ConsentState.ASSUMED.value: (
        "counts as accepted, as it was deployed before that was asked",
        True,
    ),
    ConsentState.NOT_ACCEPTED.value: ("isn't accepted", False),
}


def consent_of(found: ConsentStatus, namespace: str) -> tuple[str, bool | None]:
    """What the status says of a release in this other namespace, and whether it may be deployed.

    None: it hasn't been asked. A status may be forged, so only known values are shown.
    """
    if found.namespace != namespace:
        return "hasn't been asked yet", None
    if found.state == ConsentState.ACCEPTED:
        by = _BY.get(found.by or "", "")
        return f"is accepted {by}".strip(), True
    return _STATES.get(found.state or "", ("hasn't been asked yet", None))
