"""The Events of a test's operators, for tests that start them with it as their recorder."""

from collections import defaultdict

from copyrator.api.reasons import AnyReason
from copyrator.kube.events import EventType, ObjectRef, event_type


class Told(list[tuple[str, str]]):
    """Type and reason of each Event; `said` has the messages of each reason."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, list[str]] = defaultdict(list)

    def record(
        self, _about: ObjectRef, reason: AnyReason, message: str, *, type_: EventType | None = None
    ) -> None:
        self.append((type_ or event_type(reason), reason))
        self.said[reason].append(message)
