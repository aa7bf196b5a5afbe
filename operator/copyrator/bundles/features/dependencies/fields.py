"""``spec.dependsOn``: Bundles that new versions of this one wait for."""

from __future__ import annotations

from typing import Annotated, Final, Self

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.keys import BundleKey
from copyrator.api.object_refs import BUNDLE_REF, named
from copyrator.api.schema import items

MAX_DEPENDENCIES: Final = 20


class DependenciesSpec(Part):
    """What new versions wait for."""

    depends_on: Annotated[
        tuple[Annotated[BundleKey, BUNDLE_REF], ...], items(MAX_DEPENDENCIES)
    ] = ()
    """Bundles that have to be Ready before a new version of this one is deployed. Edits of this
    one's spec and values don't wait."""

    def fit(self, spec: BundleSpec) -> Self:
        """The same with whole keys."""
        return type(self)(named(self.depends_on, BundleKey(spec.namespace, spec.name), "dependsOn"))


SPEC: Final = (DependenciesSpec,)
