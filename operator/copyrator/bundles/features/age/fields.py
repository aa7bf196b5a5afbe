"""``spec.minAge``: how old a digest has to be to be deployed."""

from __future__ import annotations

from typing import Annotated, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.schema import duration


class AgeSpec(Part):
    """How old a version has to be."""

    min_age: Annotated[float, duration("minAge")] = 0.0
    """How long a version's digest has to be known to the operator before it is deployed, such as
    2h. A first install doesn't wait."""


SPEC: Final = (AgeSpec,)
