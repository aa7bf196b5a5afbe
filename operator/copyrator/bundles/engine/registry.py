"""Requests to registries, shared by all Bundles with the same query.

A reconcile never waits for a registry: it queues a query, returns, and is requeued when the
answer arrives. So a registry that stalls delays only its own Bundles and blocks no worker; requests
are limited for each namespace, and for each host within it. Tag lists of any length are searched
without blocking the event loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.context import Context, cancel_all
from copyrator.bundles.engine.lookup import HOLDS, DigestQuery
from copyrator.bundles.engine.poll import config_digest
from copyrator.bundles.tags import Choice, Criteria, TagSelection, read_any
from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryError, RegistryUnreachable
from copyrator.oci.exchange import Repository
from copyrator.workqueue.fairness import FairLimit, TimeSlice, working_for

TENANT_HOST_POLLS: Final = 6
"""Requests in flight to one registry for the Bundles of one namespace: fewer than the 8 requests
that a host gets at a time, so that others' Bundles of that registry continue."""

TENANT_POLLS: Final = 64
"""Requests in flight to all registries for the Bundles of one namespace: each is a connection."""

TENANTS_POLLS: Final = 256
"""The same of all namespaces together."""

BATCH: Final = 100
"""Tags that are processed before other tasks may run: about 10 ms with the slowest filter."""


async def add_all(tags: Sequence[str], selections: Collection[TagSelection]) -> None:
    """Add a page of tags to all selections; each tag is parsed once; a batch is in memory."""
    pause = TimeSlice().pause
    for start in range(0, len(tags), BATCH):
        candidates = [read_any(tag) for tag in tags[start : start + BATCH]]
        await pause()
        for selection in selections:
            for candidate in candidates:
                selection.consider(candidate)
            await pause()


KEEP: Final = 3600.0
"""Seconds before an answer is dropped."""
GATHER: Final = 0.1
"""Seconds that the request of a tag list is delayed, so that more Bundles share it."""

_NO_CHOICES: Final[Mapping[Criteria, Choice]] = {}
"""The choices of an answer about a tag; never changed."""


@dataclass(frozen=True, slots=True)
class TagQuery:
    """The digest of this tag, with this credential."""

    repository: Repository
    tag: str
    credential: Credential | None = None
    with_config: bool = False
    """Read the manifest too, for the digest of its config. Docker Hub counts that as a pull."""


@dataclass(frozen=True, slots=True)
class TagListQuery:
    """The tags of this repository, with this credential."""

    repository: Repository
    credential: Credential | None = None


Query = TagQuery | TagListQuery | DigestQuery[Any]


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """A digest, choices or another result, or an error.

    As of the request, at ``asked_at`` (monotonic seconds).
    """

    asked_at: float
    digest: str | None = None
    config: str | None = None
    choices: Mapping[Criteria, Choice] = field(default_factory=lambda: _NO_CHOICES)
    found: object = None
    """What a lookup has read."""
    error: RegistryError | None = None


@dataclass(slots=True)
class _Pending:
    asked_at: float
    waiting: set[BundleKey] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    """The namespaces that wait for a slot; the first slot is used."""
    sent: bool = False


class RegistryPoller:
    """Sends each query once; calls ``answered`` for every Bundle that waits for its answer."""

    def __init__(
        self,
        context: Context,
        answered: Callable[[BundleKey], None],
    ) -> None:
        self._oci = context.oci
        self._metrics = context.metrics
        self._answered = answered
        self._monotonic = context.monotonic
        self._answers: dict[Query, PollAnswer] = {}
        self._pending: dict[Query, _Pending] = {}
        self._criteria: dict[TagListQuery, dict[Criteria, float]] = {}
        """The criteria for each list, and the monotonic seconds of their last use."""
        self._host_slots = FairLimit(each=TENANT_HOST_POLLS, together=sys.maxsize)
        self._slots = FairLimit(each=TENANT_POLLS, together=TENANTS_POLLS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_at = 0.0
        context.memories.on_drop(self._leave)

    def _leave(self, key: BundleKey) -> None:
        """A Bundle was deleted: it doesn't wait for answers any more."""
        for pending in self._pending.values():
            pending.waiting.discard(key)

    def ask(
        self, key: BundleKey, query: TagQuery | DigestQuery[Any], not_before: float
    ) -> PollAnswer | None:
        """The answer to a request sent at ``not_before`` or later; None while there is none.

        Or an earlier one that holds. After None ``answered(key)`` is called when the answer
        arrives; call this again then.
        """
        answer = self._answers.get(query)
        if answer is not None and (answer.asked_at >= not_before or _holds(query, answer)):
            return answer
        self._join(key, query)
        return None

    def choose(
        self, key: BundleKey, listing: TagListQuery, criteria: Criteria, not_before: float
    ) -> PollAnswer | None:
        """The same for a choice from a whole tag list.

        A list is read once for all criteria in use, and isn't kept: criteria that are added while
        its pages are read wait for the next list.
        """
        self._criteria.setdefault(listing, {})[criteria] = self._monotonic()
        answer = self._answers.get(listing)
        fresh = answer is not None and answer.asked_at >= not_before
        if answer is not None and fresh and (answer.error or criteria in answer.choices):
            return answer
        self._join(key, listing)
        return None

    def _join(self, key: BundleKey, query: Query) -> None:
        pending = self._pending.get(query)
        if pending is None:
            pending = self._pending[query] = _Pending(self._monotonic())
        pending.waiting.add(key)
        namespace = key.namespace
        if pending.sent or namespace in pending.namespaces:
            return
        pending.namespaces.add(namespace)
        task = asyncio.create_task(self._ask(query, pending, namespace))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel requests in flight."""
        await cancel_all(self._tasks)

    async def _ask(self, query: Query, pending: _Pending, namespace: str) -> None:
        """Send a request when the namespace has a slot, unless another namespace has sent it."""
        host = f"{namespace} {query.repository.registry}"
        async with self._host_slots.slot(host), self._slots.slot(namespace):
            if not pending.sent:
                pending.sent = True
                pending.asked_at = self._monotonic()
                await self._send(query, pending, namespace)

    async def _send(self, query: Query, pending: _Pending, namespace: str) -> None:
        try:
            answer = await self._answer(query, pending, namespace)
        except RegistryError as error:
            answer = PollAnswer(pending.asked_at, error=error)
        except Exception as error:
            # An internal error must not leave Bundles waiting for ever. Its text may quote secrets.
            text = f"polling {query.repository} failed: {type(error).__name__}"
            answer = PollAnswer(pending.asked_at, error=RegistryUnreachable(text))
        if isinstance(query, TagQuery | TagListQuery):
            self._metrics.polls.labels(answer.error.reason if answer.error else "Answered").inc()
        del self._pending[query]
        self._sweep()
        if isinstance(query, DigestQuery) and query.lookup.recall(query) is not None:
            self._answers.pop(query, None)  # the lookup keeps it
        else:
            self._answers[query] = answer
        for key in pending.waiting:
            self._answered(key)

    async def _answer(self, query: Query, pending: _Pending, namespace: str) -> PollAnswer:
        if isinstance(query, TagListQuery):
            await asyncio.sleep(GATHER)
            pending.asked_at = self._monotonic()
            with working_for(namespace):
                return PollAnswer(pending.asked_at, choices=await self._read(query))
        repository, credential = query.repository, query.credential
        if isinstance(query, DigestQuery):
            found = await query.lookup.read(query, namespace)
            return PollAnswer(pending.asked_at, found=found)
        if query.with_config:
            digest, manifest = await self._oci.manifest(repository, query.tag, credential)
            return PollAnswer(pending.asked_at, digest, config_digest(manifest))
        digest = await self._oci.digest(repository, query.tag, credential)
        return PollAnswer(pending.asked_at, digest)

    async def _read(self, listing: TagListQuery) -> dict[Criteria, Choice]:
        """Add every tag of a list to all selections; a partial list raises, without a choice."""
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

    def _selections(self, listing: TagListQuery) -> dict[Criteria, TagSelection]:
        return {criteria: criteria.selection() for criteria in self._criteria.get(listing, ())}

    def _sweep(self) -> None:
        """Drop old answers, at most once a minute."""
        now = self._monotonic()
        if now < self._sweep_at:
            return
        self._sweep_at = now + 60.0
        old = [
            query
            for query, answer in self._answers.items()
            if answer.asked_at < now - (HOLDS if _holds(query, answer) else KEEP)
        ]
        for query in old:
            del self._answers[query]
        for listing, wanted in list(self._criteria.items()):
            fresh = {one: last for one, last in wanted.items() if last >= now - KEEP}
            if fresh:
                self._criteria[listing] = fresh
            else:
                del self._criteria[listing]


def _holds(query: Query, answer: PollAnswer) -> bool:
    """Whether an answer needn't be asked for again, however old it is."""
    if not isinstance(query, DigestQuery) or answer.error is not None:
        return False
    return bool(query.lookup.holds(answer.found))
