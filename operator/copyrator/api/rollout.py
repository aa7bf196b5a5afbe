"""``spec.rollout`` and ``status.rollout``: changed content is written in steps."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from copyrator.api.schema import (
    COUNT,
    STORED,
    TIME,
    Form,
    Rule,
    SpecError,
    StatusMap,
    custom,
    duration,
    fail,
    items,
    kept,
    number,
    text,
)
from copyrator.api.selectors import LabelSelector, selecting
from copyrator.api.text import format_time, matching

ROLLOUT_STEPS: Final = 20
"""Steps of one spec.rollout."""
UNHEALTHY_BEFORE: Final = 100
"""Consumers in a status that weren't healthy before a step."""

ROLLOUT_PAUSE: Final = 7 * 24 * 3600
"""Seconds of one pause."""

LAST_STEP: Final = "100%"

_CONTENT: Final = re.compile("[0-9a-f]{32}", re.ASCII)
_TEXT: Final = 400
"""Characters of a name of a consumer: namespace, kind and name."""
_MESSAGE: Final = 256
"""Characters of why a consumer isn't healthy."""


class Restart(StrEnum):
    """What is restarted once its copy has new content."""

    NEVER = "Never"
    CONSUMERS = "Consumers"
    """Workloads that use the copy and have the annotation ``copyrator.flant.com/restart``."""


_STEP: Final = text(
    matching(
        "[1-9][0-9]{0,6}|(100|[1-9][0-9]?)%",
        "is neither a number of namespaces, such as 1, nor a percentage between 1% and 100%",
    ),
    most=7,
    pattern="([1-9][0-9]{0,6}|([1-9][0-9]?|100)%)",
)


_ENDS: Final = Rule(f"self[size(self) - 1] == '{LAST_STEP}'", f'steps must end with "{LAST_STEP}"')


class Rollout(Form):
    """A valid ``spec.rollout``."""

    steps: Annotated[
        tuple[Annotated[str, _STEP], ...],
        items(
            ROLLOUT_STEPS,
            1,
            required=f'is required, for example ["1", "10%", "{LAST_STEP}"]',
            rules=(_ENDS,),
            noun="steps",
            repeats=True,
        ),
    ]
    """How many namespaces have the new content after each step, as a number or a percentage of the
    rule's targets, rounded up, for example 1, 10%, 50%, 100%. The last step is 100%."""
    pause: Annotated[float, duration("pause", most=ROLLOUT_PAUSE), STORED] = 600.0
    """How long to wait after each step, such as 10m, up to 168h; with health at least 2 minutes."""
    first: (
        Annotated[
            LabelSelector,
            selecting("must select some namespaces; set matchLabels, or remove it"),
        ]
        | None
    ) = None
    """Labels of the namespaces whose copies are changed first, such as those of a canary. The
    others follow in the order of their names."""
    health: Annotated[bool, STORED] = False
    """If true, Deployments, StatefulSets and DaemonSets whose pods use the copy are looked at
    before and after each step. The rollout stops if one was healthy before the step and isn't after
    the pause."""
    restart: Annotated[Restart, STORED] = Restart.NEVER
    """Consumers restarts the Deployments, StatefulSets and DaemonSets whose pods use the copy and
    that have the annotation copyrator.flant.com/restart "true", once for each content, as kubectl
    rollout restart does."""

    def __post_init__(self) -> None:
        if any(map(_is_less, self.steps[1:], self.steps)):
            fail("steps", "must increase")
        if self.steps[-1] != LAST_STEP:
            fail("steps", f'must end with "{LAST_STEP}"')

    @property
    def reads_consumers(self) -> bool:
        """Whether workloads in target namespaces are read."""
        return self.health or self.restart is Restart.CONSUMERS

    def totals(self, targets: int) -> list[int]:
        """How many of so many targets have the new content after each step."""
        found: list[int] = []
        for step in self.steps:
            number, percent = int(step.rstrip("%")), step.endswith("%")
            total = math.ceil(targets * number / 100) if percent else number
            found.append(min(max(total, found[-1] if found else 0), targets))
        return found

    def to_string(self, targets: int) -> str:
        """How many targets each step covers: ``1, 50, 250, 500``; each number once."""
        return ", ".join(str(total) for total in dict.fromkeys(self.totals(targets)))


def _is_less(step: str, before: str) -> bool:
    """Whether a step is less than the one before; numbers and percentages aren't compared."""
    same = step.endswith("%") == before.endswith("%")
    return same and int(step.rstrip("%")) <= int(before.rstrip("%"))


# Status ------------------------------------------------------------------------------------------


_PLACE: Final = replace(kept(_TEXT), is_required=True, is_shown=True)


class Consumer(StatusMap, frozen=True, order=True):
    """A workload whose pod template names a copy."""

    namespace: Annotated[str, _PLACE] = ""
    """Namespace of the consumer."""
    kind: Annotated[str, _PLACE] = ""
    """Kind of the consumer."""
    name: Annotated[str, _PLACE] = ""
    """Name of the consumer."""

    def to_string(self) -> str:
        """``team-a/Deployment/web``."""
        return f"{self.namespace}/{self.kind}/{self.name}"


class Stopped(Consumer, frozen=True):
    """Why a rollout is stopped."""

    message: Annotated[str, kept(_MESSAGE)] = ""
    """What it lacks to be healthy."""

    @classmethod
    def by(cls, consumer: Consumer, message: str) -> Stopped:
        """By this consumer, which isn't healthy: its controller's text."""
        return cls(consumer.namespace, consumer.kind, consumer.name, message[:_MESSAGE])


def _read_content(raw: Any) -> str:
    if not isinstance(raw, str) or not _CONTENT.fullmatch(raw):
        raise SpecError("", "isn't ours")
    return raw


_HASH: Final = custom(_read_content, {"type": "string"})


def _read_consumer(raw: Any) -> str:
    if not isinstance(raw, str) or len(raw) > _TEXT:
        raise SpecError("", "isn't ours")
    return raw


class RolloutState(StatusMap, frozen=True):
    """``status.rollout``: with the copies' seals, enough to continue after a restart."""

    content: Annotated[str, _HASH]
    """Keyed hash of the content."""
    step: Annotated[int, number(0, ROLLOUT_STEPS, bits=64)] = 0
    """The present step, from 1; absent when the content is everywhere."""
    steps: Annotated[int, COUNT] = 0
    """Steps of spec.rollout."""
    previous: Annotated[str, _HASH] = ""
    """Keyed hash of the content that most copies had before."""
    started_at: Annotated[datetime, TIME] | None = None
    """When the first step began."""
    next_at: Annotated[datetime, TIME] | None = None
    """When the pause after the present step ends; absent while the step is being written."""
    stopped: Stopped | None = None
    """The consumer that isn't healthy since its copy was changed."""
    unhealthy_before: Annotated[
        tuple[Annotated[str, custom(_read_consumer, {"type": "string"})], ...],
        items(UNHEALTHY_BEFORE),
    ] = ()
    """Consumers in the namespaces of the present step that weren't healthy before it, as
    namespace/kind/name; at most 100."""

    @property
    def running(self) -> bool:
        """Whether there are steps to come; also while it is stopped."""
        return self.step > 0

    @property
    def id(self) -> str:
        """What the annotation that finishes it has to be: another one for each rollout."""
        began = format_time(self.started_at) if self.started_at else ""
        return f"{self.content}-{began}"

    @property
    def ticket(self) -> str:
        """What the annotation that resumes it at this step has to be."""
        return f"{self.id}-{self.step}"

    @classmethod
    def read(cls, raw: Any, texts: dict[str, str]) -> RolloutState | None:
        """Read it; with a step that isn't ours it isn't known, rather than finished."""
        found = super().read(raw, texts)
        return found if found is None or raw.get("step", 0) == found.step else None
