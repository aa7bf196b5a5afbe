"""``spec.rollout`` and ``status.rollout``: changed content is written in steps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TypeGuard

from copyrator.api import syntax
from copyrator.api.fields import map_in, text_in, texts_in
from copyrator.api.schema import STORED, Form, Rule, duration, fail, items, text
from copyrator.api.selectors import LabelSelector, selecting
from copyrator.api.times import format_time, parse_time
from copyrator.settings.limits import UNHEALTHY_BEFORE

ROLLOUT_STEPS: Final = 20
"""Steps of one spec.rollout."""
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
    syntax.matching(
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


@dataclass(frozen=True, slots=True, order=True)
class Consumer:
    """A workload whose pod template names a copy."""

    namespace: str
    kind: str
    name: str

    def to_string(self) -> str:
        """``team-a/Deployment/web``."""
        return f"{self.namespace}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why a rollout is stopped."""

    consumer: Consumer
    message: str = ""
    """Why it isn't healthy: its controller's text."""

    def to_dict(self) -> dict[str, str]:
        """As in the status."""
        return asdict(self.consumer) | {"message": self.message[:_MESSAGE]}


@dataclass(frozen=True, slots=True)
class RolloutState:
    """``status.rollout``: with the copies' seals, enough to continue after a restart."""

    content: str
    """A keyed hash of the content that is written, or was written last."""
    step: int = 0
    """The present step, from 1; 0: the content is written everywhere."""
    previous: str = ""
    """The content that most copies had before."""
    started_at: datetime | None = None
    next_at: datetime | None = None
    """When the next step is due; None while the present one is written."""
    stopped: Stopped | None = None
    unhealthy_before: tuple[str, ...] = ()
    """Consumers in the namespaces of this step that weren't healthy before it."""

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

    def to_dict(self, steps: int) -> dict[str, Any]:
        """As in the status."""
        found: dict[str, Any] = {"content": self.content}
        if not self.running:
            return found
        found |= {"step": self.step, "steps": steps, "previous": self.previous}
        for name, moment in (("startedAt", self.started_at), ("nextAt", self.next_at)):
            if moment is not None:
                found[name] = format_time(moment)
        if self.stopped is not None:
            found["stopped"] = self.stopped.to_dict()
        if self.unhealthy_before:
            found["unhealthyBefore"] = list(self.unhealthy_before)
        return found


def read_rollout_state(status: Mapping[str, Any]) -> RolloutState | None:
    """The state of a stored status; None where there is none, or it isn't ours."""
    found = map_in(status, "rollout")
    content, step = found.get("content"), found.get("step", 0)
    if not _is_content(content) or type(step) is not int or not 0 <= step <= ROLLOUT_STEPS:
        return None
    previous, stopped = found.get("previous"), found.get("stopped")
    unhealthy = texts_in(found, "unhealthyBefore", UNHEALTHY_BEFORE)
    return RolloutState(
        content=content,
        step=step,
        previous=previous if _is_content(previous) else "",
        started_at=parse_time(found.get("startedAt")),
        next_at=parse_time(found.get("nextAt")),
        stopped=_read_stopped(stopped) if isinstance(stopped, Mapping) else None,
        unhealthy_before=tuple(one for one in unhealthy if len(one) <= _TEXT),
    )


def _is_content(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(_CONTENT.fullmatch(value))


def _read_stopped(found: Mapping[str, Any]) -> Stopped:
    names = ("namespace", "kind", "name", "message")
    *consumer, message = (text_in(found, name)[:_TEXT] for name in names)
    return Stopped(Consumer(*consumer), message)
