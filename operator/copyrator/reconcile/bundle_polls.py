"""Questions to registries, asked once for everybody who wants to know the same.

A reconcile never waits for a registry: it asks, goes away, and is called again when the answer is
there. So a registry that stalls holds up its own Bundles and no worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from copyrator.api.keys import BundleKey
from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryError, Unreachable
from copyrator.oci.reference import Repository
from copyrator.reconcile.bundle_context import cancel_all

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient

KEEP: Final = 3600.0
"""Seconds after which nobody needs an answer any more."""


@dataclass(frozen=True, slots=True)
class Question:
    """What does this tag name, for this credential?"""

    repository: Repository
    tag: str
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A digest or an error, as of when the question was sent (monotonic seconds)."""

    asked_at: float
    digest: str | None = None
    error: RegistryError | None = None


@dataclass(slots=True)
class _Pending:
    asked_at: float
    waiting: set[BundleKey] = field(default_factory=set)


class Polls:
    """Shared questions. ``answered`` is called for each Bundle that waits for one."""

    def __init__(
        self,
        oci: RegistryClient,
        answered: Callable[[BundleKey], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._oci = oci
        self._answered = answered
        self._monotonic = monotonic
        self._answers: dict[Question, Answer] = {}
        self._pending: dict[Question, _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_at = 0.0

    def ask(self, key: BundleKey, question: Question, not_before: float) -> Answer | None:
        """The answer to a question sent at ``not_before`` or later; None while there is none.

        Then ``answered(key)`` is called when one arrives, and the Bundle has to ask again.
        """
        answer = self._answers.get(question)
        if answer is not None and answer.asked_at >= not_before:
            return answer
        pending = self._pending.get(question)
        if pending is None:
            pending = self._pending[question] = _Pending(self._monotonic())
            task = asyncio.create_task(self._send(question, pending))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        pending.waiting.add(key)
        return None

    async def close(self) -> None:
        """Give up what is under way."""
        await cancel_all(self._tasks)

    async def _send(self, question: Question, pending: _Pending) -> None:
        try:
            digest = await self._oci.digest(question.repository, question.tag, question.credential)
            answer = Answer(pending.asked_at, digest=digest)
        except RegistryError as error:
            answer = Answer(pending.asked_at, error=error)
        except Exception as error:
            # A mistake of ours must not leave Bundles waiting for ever. Its text may quote secrets.
            text = f"asking {question.repository} failed: {type(error).__name__}"
            answer = Answer(pending.asked_at, error=Unreachable(text))
        del self._pending[question]
        self._sweep()
        self._answers[question] = answer
        for key in pending.waiting:
            self._answered(key)

    def _sweep(self) -> None:
        """Drop old answers, at most once a minute."""
        now = self._monotonic()
        if now < self._sweep_at:
            return
        self._sweep_at = now + 60.0
        old = [
            question for question, answer in self._answers.items() if answer.asked_at < now - KEEP
        ]
        for question in old:
            del self._answers[question]
