"""``spec.greeting`` and ``status.greeting``, and the condition. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import BundleCondition
from copyrator.api.schema import OBJECT_NAME, Record

GREETED: Final = "Greeted"
"""Whether guests are greeted; only with ``spec.greeting``."""


class GreetingSpec(Part):
    """How guests are greeted."""

    FIELD: ClassVar[str] = "greeting"

    config_map: Annotated[str, OBJECT_NAME]
    """ConfigMap in the Bundle's namespace, whose `words` greet."""


class GreetingStatus(Record, frozen=True):
    """Who greets."""

    FIELD: ClassVar[str] = "greeting"

    digest: str | None = None
    """The digest that greets."""


SPEC: Final = (GreetingSpec,)
STATUS: Final = (GreetingStatus,)
CONDITIONS: Final = (BundleCondition(GREETED, 11, "guests are greeted"),)
