"""Requests to registries, shared by all Bundles with the same question.

A reconcile never waits for a registry: it queues a question, returns, and is requeued when the
answer arrives. So a registry that stalls delays only its own Bundles and blocks no worker.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from copyrator.api.keys import BundleKey
from copyrator.bundles.choices import add_all
from copyrator.bundles.context import cancel_all
from copyrator.bundles.policy.candidates import Choice, TagSelection
from copyrator.bundles.policy.criteria import Criteria
from copyrator.bundles.policy.takeover import config_digest
from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryError, Unreachable
from copyrator.oci.reference import Repository
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient

KEEP: Final = 3600.0
"""Seconds before an answer is dropped."""
GATHER: Final = 0.1
"""Seconds that a tag list waits for other Bundles that select from it."""

_NO_CHOICES: Final[Mapping[Criteria, Choice]] = {}
"""Of all questions for a tag; never changed."""


@dataclass(frozen=True, slots=True)
class Question:
    """The digest of this tag, with this credential."""

    repository: Repository
    tag: str
    credential: Credential | None = None
    with_config: bool = False
    """Read the manifest too, for the digest of its config. Docker Hub counts that as a pull."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tags of this repository, with this credential."""

    repository: Repository
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A digest, choices or an error, as of when the request was sent (monotonic seconds)."""

    asked_at: float
    digest: str | None = None
    config: str | None = None
    choices: Mapping[Criteria, Choice] = field(default_factory=lambda: _NO_CHOICES)
    error: RegistryError | None = None


@dataclass(slots=True)
class _Pending:
    asked_at: float
    waiting: set[BundleKey] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    """Those for which a permit is requested; the first one's is used."""
    sent: bool = False


class _Turns:
    """Permits for requests in flight: of a namespace to one host, and of a namespace to all."""

    def __init__(self) -> None:
        self._hosts = FairLimit(each=limits.TENANT_HOST_POLLS, together=sys.maxsize)
        self._all = FairLimit(each=limits.TENANT_POLLS, together=limits.TENANTS_POLLS)

    def try_acquire(self, turn: tuple[str, str]) -> bool:
        """Take a permit if one is free; `release` has to follow."""
        if not self._hosts.try_acquire(" ".join(turn)):
            return False
        if self._all.try_acquire(turn[0]):
            return True
        self._hosts.release(" ".join(turn))
        return False

    async def acquire(self, turn: tuple[str, str]) -> None:
        """Wait for a permit; `release` has to follow."""
        await self._hosts.acquire(" ".join(turn))
        try:
            await self._all.acquire(turn[0])
        except asyncio.CancelledError:
            self._hosts.release(" ".join(turn))
            raise

    def release(self, turn: tuple[str, str]) -> None:
        """Return a permit."""
        self._all.release(turn[0])
        self._hosts.release(" ".join(turn))


class Polls:
    """Shared questions. ``answered`` is called for each Bundle that waits for one."""

    def __init__(
        self,
        oci: RegistryClient,
        answered: Callable[[BundleKey], None],
        monotonic: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._oci = oci
        self._metrics = metrics
        self._answered = answered
        self._monotonic = monotonic
        self._answers: dict[Question | Listing, Answer] = {}
        self._pending: dict[Question | Listing, _Pending] = {}
        self._criteria: dict[Listing, dict[Criteria, float]] = {}
        """What is selected from each list, and when (monotonic) it was last requested."""
        self._turns = _Turns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_at = 0.0

    def ask(self, key: BundleKey, question: Question, not_before: float) -> Answer | None:
        """The answer to a request sent at ``not_before`` or later; None while there is none.

        Then ``answered(key)`` is called when one arrives, and the Bundle has to call again.
        """
        answer = self._answers.get(question)
        if answer is not None and answer.asked_at >= not_before:
            return answer
        self._join(key, question)
        return None

    def choose(
        self, key: BundleKey, listing: Listing, criteria: Criteria, not_before: float
    ) -> Answer | None:
        """The same for a choice from a whole tag list.

        A list is read once for all criteria that were requested lately, and not kept: criteria that
        are new while its pages are read wait for another list.
        """
        self._criteria.setdefault(listing, {})[criteria] = self._monotonic()
        answer = self._answers.get(listing)
        fresh = answer is not None and answer.asked_at >= not_before
        if answer is not None and fresh and (answer.error or criteria in answer.choices):
            return answer
        self._join(key, listing)
        return None

    def _join(self, key: BundleKey, question: Question | Listing) -> None:
        pending = self._pending.get(question)
        if pending is None:
            pending = self._pending[question] = _Pending(self._monotonic())
        pending.waiting.add(key)
        namespace = key.namespace
        if pending.sent or namespace in pending.namespaces:
            return
        pending.namespaces.add(namespace)
        turn = (namespace, question.repository.registry)
        has_turn = pending.sent = self._turns.try_acquire(turn)
        task = asyncio.create_task(self._ask(question, pending, turn, has_turn=has_turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel requests in flight."""
        await cancel_all(self._tasks)

    async def _ask(
        self,
        question: Question | Listing,
        pending: _Pending,
        turn: tuple[str, str],
        *,
        has_turn: bool,
    ) -> None:
        """Send a request when the namespace has a permit, unless another one has sent it first."""
        if not has_turn:
            await self._turns.acquire(turn)
        try:
            if has_turn or not pending.sent:
                pending.sent = True
                pending.asked_at = self._monotonic()
                await self._send(question, pending)
        finally:
            self._turns.release(turn)

    async def _send(self, question: Question | Listing, pending: _Pending) -> None:
        try:
            if isinstance(question, Listing):
                await asyncio.sleep(GATHER)
                pending.asked_at = self._monotonic()
                answer = Answer(pending.asked_at, choices=await self._read(question))
            elif question.with_config:
                digest, manifest = await self._oci.manifest(
                    question.repository, question.tag, question.credential
                )
                answer = Answer(pending.asked_at, digest, config_digest(manifest))
            else:
                digest = await self._oci.digest(
                    question.repository, question.tag, question.credential
                )
                answer = Answer(pending.asked_at, digest)
        except RegistryError as error:
            answer = Answer(pending.asked_at, error=error)
        except Exception as error:
            # An internal error must not leave Bundles waiting for ever. Its text may quote secrets.
            text = f"polling {question.repository} failed: {type(error).__name__}"
            answer = Answer(pending.asked_at, error=Unreachable(text))
        self._metrics.polls.labels(answer.error.reason if answer.error else "Answered").inc()
        del self._pending[question]
        self._sweep()
        self._answers[question] = answer
        for key in pending.waiting:
            self._answered(key)

    async def _read(self, listing: Listing) -> dict[Criteria, Choice]:
        """Add every tag of a list to all selections; a partial list raises, selecting nothing."""
        selections: dict[Criteria, TagSelection] | None = None

        async def consider(tags: list[str]) -> None:
            nonlocal selections
            if selections is None:
                selections = self._selections(listing)
            await add_all(tags, selections.values())

        await self._oci.tags(listing.repository, listing.credential, consider)
        if selections is None:
            selections = self._selections(listing)
        return {criteria: selection.result() for criteria, selection in selections.items()}

    def _selections(self, listing: Listing) -> dict[Criteria, TagSelection]:
        return {criteria: criteria.selection() for criteria in self._criteria.get(listing, ())}

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
        for listing, wanted in list(self._criteria.items()):
            fresh = {one: last for one, last in wanted.items() if last >= now - KEEP}
            if fresh:
                self._criteria[listing] = fresh
            else:
                del self._criteria[listing]
