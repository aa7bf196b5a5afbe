"""``spec.greeting`` and ``status.greeting``, and the condition. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Self

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import BundleCondition
from copyrator.api.keys import BundleKey
from copyrator.api.object_refs import BUNDLE_REF, named
from copyrator.api.schema import COUNT, OBJECT_NAME, Record, items

GREETED: Final = "Greeted"
"""Whether guests are greeted; only with ``spec.greeting``."""
ANN_GREET = "operator.werf.dev/greet"
"""On a Bundle: any new value has the registry asked, and greets once more."""


class GreetingSpec(Part):
    """How guests are greeted."""

    FIELD: ClassVar[str] = "greeting"

    config_map: Annotated[str, OBJECT_NAME]
    """ConfigMap in the Bundle's namespace: `words` greets, the tags in `unwelcome` aren't
    deployed, and while there is a key `closed` nothing is."""
    after: Annotated[tuple[Annotated[BundleKey, BUNDLE_REF], ...], items(5)] = ()
    """Bundles that have to greet before this one."""

    def fit(self, spec: BundleSpec) -> Self:
        """The same with whole keys."""
        own = BundleKey(spec.namespace, spec.name)
        return type(self)(self.config_map, named(self.after, own, "after"))


class GreetingStatus(Record, frozen=True):
    """Who was greeted."""

    FIELD: ClassVar[str] = "greeting"

    asked: str | None = None
    """The value of the annotation that was taken last."""
    answered: str | None = None
    """The last one with which something was deployed."""
    printed: Annotated[int, COUNT] | None = None
    """Greetings that Jobs have printed."""
    serving: bool | None = None
    """True while a Job is to print a greeting."""
    heard: bool | None = None
    """Whether the last one has begun to."""
    closed: bool | None = None
    """True while the house is closed."""
    judged: str | None = None
    """resourceVersion of the ConfigMap by which what is deployed was judged."""
    welcome: bool | None = None
    """Whether its version is welcome."""
    digest: str | None = None
    """The digest that greets."""

    @property
    def open_request(self) -> str:
        """What was asked for and isn't answered; empty: nothing."""
        return self.asked if self.asked is not None and self.asked != self.answered else ""


SPEC: Final = (GreetingSpec,)
STATUS: Final = (GreetingStatus,)
CONDITIONS: Final = (BundleCondition(GREETED, 11, "guests are greeted"),)
