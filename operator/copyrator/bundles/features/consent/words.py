"""What is said of the consent of a release's namespace. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.consent import ConsentBy, ConsentState, ConsentStatus
from copyrator.api.names import ANN_ACCEPT_FROM
from copyrator.api.text import Detail
from copyrator.bundles.words import DeployStep, Place, StepState, View, Words


class ConsentWords(Words):
    """Whether another namespace accepts the release."""

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """That; nothing where it isn't asked, as in another cluster."""
        where = (view.body.get("spec") or {}).get("project_namespace") or view.name.namespace
        if place is Place.NAMESPACE and where != view.name.namespace and not view.cluster:
            yield Detail("Consent", _consent(view, where)[0])

    def steps(self, view: View, spec: BundleSpec, place: Place) -> Iterator[DeployStep]:
        """The same."""
        where = spec.project_namespace
        if place is Place.NAMESPACE and where != spec.namespace and not view.cluster:
            text, accepted = _consent(view, where)
            decided = StepState.PASSED if accepted else StepState.REFUSED
            state = StepState.WAITING if accepted is None else decided
            yield DeployStep("consent", state, f"the release in namespace {where} {text}")


def _consent(view: View, namespace: str) -> tuple[str, bool | None]:
    """Whether this other namespace accepts the release, in words; None: it hasn't been asked."""
    found, by = view.status.part(ConsentStatus), ""
    if found.namespace == namespace:
        match found.state:
            case ConsentState.ACCEPTED:
                if found.by == ConsentBy.ANNOTATION:
                    by = f" by its annotation {ANN_ACCEPT_FROM}"
                elif found.by == ConsentBy.PERMISSION:
                    by = " as the Job's service account may create Secrets there"
                return f"is accepted{by}", True
            case ConsentState.ASSUMED:
                return "counts as accepted, as it was deployed before that was asked", True
            case ConsentState.NOT_ACCEPTED:
                return "isn't accepted", False
    return "hasn't been asked yet", None


WORDS: Final = ConsentWords()
