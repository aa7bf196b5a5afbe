"""What judging signatures costs: parsed once a digest, refused once, and never on the loop."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.component.bundles.waiting import eventually
from tests.steps import STEP_SECONDS, measured_steps
from tests.unit.signatures.making import (
    ARTIFACT,
    NOW,
    SIGNATURE_DIGEST,
    bundle,
    bundle_signature,
    entry,
    key,
    payload_signature,
)

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.lookup import HOLDS, DigestQuery
from copyrator.bundles.engine.registry import RegistryPoller
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.signatures import policy as trust
from copyrator.bundles.features.signatures import verifier
from copyrator.bundles.features.signatures.verifier import SignatureVerifier, judge_found
from copyrator.metrics import Metrics
from copyrator.oci.errors import RegistryUnreachable
from copyrator.oci.exchange import Repository
from copyrator.signatures import keys, sigstore_bundle
from copyrator.signatures.judge import BEYOND, SIGNATURE_CHECK, SIGNATURE_WORK
from copyrator.signatures.model import (
    SIGNATURE_KEYS,
    SIGNATURES,
    Artifact,
    Found,
    Holds,
    Judgement,
    Signature,
    SignatureRequirement,
)
from copyrator.workqueue.isolated import Isolated
from localcluster.signing import self_signed

REPOSITORY = Repository("registry.example.com", "app")
MINE, YOURS = key("P-256"), key("P-256 second")
MINE_ASKED = trust.combine_requirements([SignatureRequirement("spec.verify", (entry(MINE),))])
YOURS_ASKED = trust.combine_requirements([SignatureRequirement("spec.verify", (entry(YOURS),))])
BOTH_ASKED = trust.combine_requirements([*MINE_ASKED.requirements, *YOURS_ASKED.requirements])


class Finder:
    """Finds what a test puts into the registry."""

    def __init__(self) -> None:
        self.signatures: tuple[Signature, ...] = ()

    async def find(self, _repository: object, digest: str, _credential: object) -> Found:
        return Found(Artifact(digest, ARTIFACT.media_type, ARTIFACT.size), self.signatures)


class World:
    """Verdicts at times that a test chooses."""

    def __init__(self, isolated: Isolated) -> None:
        self.seconds = 0.0
        self.finder = Finder()
        context = SimpleNamespace(
            monotonic=lambda: self.seconds, clock=lambda: self.now, metrics=Metrics()
        )
        attached = AttachedReader(cast("Any", None), isolated)
        attached.finder = cast("Any", self.finder)
        self.verdicts = SignatureVerifier(cast("Any", context), attached)

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    async def judge(self, asked: Asked = MINE_ASKED, digest: str = ARTIFACT.digest) -> Judgement:
        query = DigestQuery(self.verdicts, REPOSITORY, digest, asked)
        return await self.verdicts.read(query, "team")


@pytest.fixture
async def isolated() -> AsyncIterator[Isolated]:
    child = Isolated()
    yield child
    await child.close()


@pytest.fixture
def world(isolated: Isolated) -> World:
    return World(isolated)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Found]:
    """What is judged, in this process."""
    seen: list[Found] = []

    def counting(found: Found, asked: Any, now: datetime) -> Judgement:
        seen.append(found)
        return judge_found(found, asked, now)

    monkeypatch.setattr(verifier, "judge_found", counting)
    return seen


async def test_what_was_refused_is_not_judged_again_until_something_else_is_found(
    world: World, judged: list[Found]
) -> None:
    world.finder.signatures = (payload_signature(YOURS),)
    first = await world.judge()
    assert not first.is_trusted
    world.seconds = 60.0
    assert await world.judge() == first
    assert len(judged) == 1

    world.finder.signatures += (payload_signature(MINE),)

    assert (await world.judge()).is_trusted
    assert len(judged) == 2


async def test_another_policy_and_another_digest_are_judged_for_themselves(
    world: World, judged: list[Found]
) -> None:
    world.finder.signatures = (payload_signature(YOURS),)
    assert not (await world.judge()).is_trusted
    assert (await world.judge(YOURS_ASKED)).is_trusted
    assert not (await world.judge(YOURS_ASKED, "sha256:" + "0" * 64)).is_trusted
    assert len(judged) == 3


async def test_a_trusted_verdict_is_not_kept_as_a_refusal(
    world: World, judged: list[Found]
) -> None:
    world.finder.signatures = (payload_signature(MINE),)
    await world.judge()
    await world.judge()
    assert len(judged) == 2


async def test_refusals_are_bounded_and_those_in_use_stay(
    world: World, judged: list[Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.bundles.features.signatures.verifier.SIGNATURE_REFUSALS", 2)
    for digest in ("sha256:a", "sha256:b", "sha256:a", "sha256:c", "sha256:a"):
        await world.judge(digest=digest)
    assert [found.artifact.digest for found in judged] == ["sha256:a", "sha256:b", "sha256:c"]
    await world.judge(digest="sha256:b")
    assert judged[-1].artifact.digest == "sha256:b", "it is judged again"


async def test_after_a_day_a_refusal_is_judged_again(world: World, judged: list[Found]) -> None:
    await world.judge()
    world.seconds = HOLDS
    await world.judge()
    assert len(judged) == 1
    world.seconds = HOLDS + 1
    await world.judge()
    assert len(judged) == 2


async def test_what_is_trusted_is_asked_for_again_once_its_verdict_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before that the registry isn't asked, however long ago it answered."""
    moments = {"seconds": 0.0}
    ends = NOW + timedelta(hours=1)
    answered: list[BundleKey] = []
    context = SimpleNamespace(
        oci=None,
        monotonic=lambda: moments["seconds"],
        clock=lambda: NOW + timedelta(seconds=moments["seconds"]),
        metrics=Metrics(),
        timing=BundleTiming(),
        memories=Memories(),
    )
    polls = RegistryPoller(cast("Any", context), answered.append)
    holds = Holds("spec.verify", "keys", SIGNATURE_DIGEST, ends)
    read = AsyncMock(side_effect=lambda *_: Judgement(holds=(holds,)))
    verdicts = SignatureVerifier(cast("Any", context), cast("Any", None))
    monkeypatch.setattr(verdicts, "read", read)
    me = BundleKey("team", "shop")
    query = DigestQuery(verdicts, REPOSITORY, ARTIFACT.digest, MINE_ASKED)
    assert polls.ask(me, query, 0.0) is None
    await eventually(lambda: answered == [me])
    for moments["seconds"] in (1.0, 3599.0):
        assert polls.ask(me, query, moments["seconds"]) is not None
    assert read.call_count == 1

    moments["seconds"] = 3600.0

    assert polls.ask(me, query, 3600.0) is None
    await eventually(lambda: answered == [me, me])
    assert read.call_count == 2
    await polls.close()


def dense(kind: str = "P-256 second", size: int = 80_000) -> bytes:
    """A bundle by that key, of nothing but members that cost much to parse."""
    document = bundle(key(kind))
    document["verificationMaterial"]["tlogEntries"] = [{"a": ""}] * (size // 9)
    return json.dumps(document, separators=(",", ":")).encode()


def hostile() -> tuple[Signature, ...]:
    blob = dense()
    return tuple(
        replace(bundle_signature(blob), digest=f"sha256:{number}") for number in range(SIGNATURES)
    )


TEN = SignatureRequirement("r", tuple(replace(entry(MINE), name=f"entry {n}") for n in range(10)))


def test_a_bundle_is_parsed_once_for_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[str] = Counter()
    decode: Callable[..., Any] = sigstore_bundle.decode

    def counting(what: str, raw: bytes, kind: Any) -> Any:
        parsed[what] += 1
        return decode(what, raw, kind)

    monkeypatch.setattr(sigstore_bundle, "decode", counting)
    twice = [TEN, replace(TEN, name="s")]
    found = Found(ARTIFACT, (bundle_signature(dense()), bundle_signature(b"{}")))
    assert not judge_found(found, twice, NOW).is_trusted
    assert parsed == {"the bundle": 2}


def test_checks_are_bounded_by_their_number_and_bytes_and_what_is_beyond_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the clock says: the same signatures have the same verdict everywhere."""
    checks: list[str] = []
    signer = keys.signer

    def counting(entries: Any, signature: bytes, message: bytes) -> str:
        checks.append("")
        return signer(entries, signature, message)

    monkeypatch.setattr(keys, "signer", counting)
    found = Found(ARTIFACT, (*hostile()[:3], payload_signature(MINE)))
    assert judge_found(found, [TEN], NOW).is_trusted
    assert len(checks) == 3 * 10 + 1
    checks.clear()
    each = SIGNATURE_CHECK + len(found.signatures[0].blob)
    monkeypatch.setattr("copyrator.signatures.judge.SIGNATURE_WORK", 12 * each)
    judged = judge_found(found, [TEN, replace(TEN, name="s")], NOW)
    assert len(checks) == 12
    assert judged.failed == ("r", "s")
    assert judged.failures[1].reason == BEYOND


def test_what_a_tenant_may_ask_for_of_usual_signatures_is_within_the_limit_of_work() -> None:
    usual = 10_000
    each = (SIGNATURE_CHECK + usual) * SIGNATURE_KEYS
    assert each * SIGNATURES < SIGNATURE_WORK


async def test_hostile_signatures_hold_up_nothing_and_are_judged_once(isolated: Isolated) -> None:
    """50 bundles of 80 KB and ten entries."""
    child = Mock(call=AsyncMock(wraps=isolated.call))
    world = World(child)
    world.finder.signatures = hostile()
    asked = trust.combine_requirements([TEN])
    with measured_steps() as steps:
        first = await world.judge(asked)
        again = [await world.judge(asked) for _ in range(3)]
    assert (first.is_trusted, first.signatures) == (False, SIGNATURES)
    assert again == [first] * 3
    assert [one.args[0].func for one in child.call.await_args_list] == [judge_found]
    assert steps.longest < STEP_SECONDS, steps.where


async def test_signatures_that_exceed_the_childs_limits_are_an_error_and_not_kept() -> None:
    small = Isolated(memory=1)
    world = World(small)
    world.finder.signatures = hostile()
    for _ in range(2):
        with pytest.raises(
            RegistryUnreachable, match=r"the signatures of sha256:.* can't be judged"
        ):
            await world.judge()
    await small.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 599, 600, 3600, HOLDS]),
        st.frozensets(st.sampled_from(["yours", "mine later", "mine a while", "junk"])),
        st.sampled_from([MINE_ASKED, YOURS_ASKED, BOTH_ASKED]),
    ),
    max_size=12,
)


@cache
def signatures() -> dict[str, Signature]:
    """By either key; two with certificates beside them that are valid from, or until, a time."""
    minutes = timedelta(minutes=1)
    later = self_signed("x", begins=NOW + 10 * minutes, ends=NOW + timedelta(days=3))
    a_while = self_signed("x", begins=NOW - minutes, ends=NOW + 10 * minutes)
    return {
        "yours": payload_signature(YOURS),
        "mine later": payload_signature(MINE, certificate=later),
        "mine a while": payload_signature(MINE, certificate=a_while),
        "junk": bundle_signature(b"{"),
    }


LATER, A_WHILE = frozenset({"mine later"}), frozenset({"mine a while"})


@settings(deadline=None)
@example([(0, LATER, MINE_ASKED), (599, LATER, MINE_ASKED), (1, LATER, MINE_ASKED)])
@example([(0, A_WHILE, BOTH_ASKED), (601, A_WHILE, BOTH_ASKED)])
@given(STEPS)
def test_keeping_refusals_changes_no_verdict(steps: list[tuple[float, frozenset[str], Asked]]):
    """Whatever is found when: nor a reason, and never what is trusted."""

    async def run() -> None:
        world = World(cast("Any", None))
        for seconds, names, asked in steps:
            world.seconds += seconds
            world.finder.signatures = tuple(signatures()[name] for name in sorted(names))
            found = Found(ARTIFACT, world.finder.signatures)
            assert await world.judge(asked) == judge_found(found, asked.requirements, world.now)

    asyncio.run(run())
