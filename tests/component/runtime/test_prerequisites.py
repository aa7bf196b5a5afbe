"""What is waited for at the start, what is said of it, and how often."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from copyrator.kube.errors import ApiError, Forbidden, NotFound, TooManyRequests, Unreachable
from copyrator.kube.leader import DEFAULT_TERMS, Lease
from copyrator.kube.resources import BUNDLES, RULES, Resource
from copyrator.runtime.prerequisites import (
    MissingPrerequisite,
    missing_crds,
    retry_until_done,
    wait_for_crds,
    wait_for_leadership,
)

CRDS = {"copyrators.flant.com": RULES, "bundles.operator.werf.dev": BUNDLES}


def crd(name: str, *conditions: dict[str, str]) -> dict[str, Any]:
    group = name.partition(".")[2]
    return {
        "metadata": {"name": name},
        "spec": {"group": group},
        "status": {"conditions": list(conditions)},
    }


ESTABLISHED = {"type": "Established", "status": "True"}
REFUSED = {
    "type": "NamesAccepted",
    "status": "False",
    "message": '"CopyratorRule" is already in use',
}


class Server:
    """An API server with CRDs and what its discovery shows of them."""

    def __init__(self) -> None:
        self.crds: dict[str, dict[str, Any] | ApiError] = {
            name: crd(name, ESTABLISHED) for name in CRDS
        }
        self.served = set(CRDS)
        self.faults: list[ApiError] = []

    async def get(self, res: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        if self.faults:
            raise self.faults.pop(0)
        found = self.crds.get(name, NotFound("no such CRD", details={"name": name}))
        if isinstance(found, ApiError):
            raise found
        return found

    async def request(self, method: str, path: str) -> Any:
        served = [CRDS[name] for name in self.served]
        if path == "/apis":
            return {"groups": [{"name": res.group} for res in served]}
        resources = [
            {"name": res.plural} for res in served if path == f"/apis/{res.group}/{res.version}"
        ]
        if not resources:
            raise NotFound("404 page not found")
        return {"resources": resources}


@pytest.fixture
def server() -> Server:
    return Server()


async def test_nothing_is_missing_when_both_are_established_and_served(server: Server) -> None:
    assert await missing_crds(server) == []


async def test_a_missing_crd_is_named_with_what_to_do(server: Server) -> None:
    del server.crds["bundles.operator.werf.dev"]
    (sentence,) = await missing_crds(server)
    assert sentence.startswith("the CRD bundles.operator.werf.dev is missing: install the chart")


async def test_a_crd_whose_names_are_taken_is_named_with_the_way_out(server: Server) -> None:
    server.crds["copyrators.flant.com"] = crd("copyrators.flant.com", REFUSED)
    (sentence,) = await missing_crds(server)
    assert '"CopyratorRule" is already in use' in sentence
    assert "export its objects, delete that CRD" in sentence


async def test_a_crd_that_is_not_established_yet_is_waited_for(server: Server) -> None:
    server.crds["copyrators.flant.com"] = crd("copyrators.flant.com")
    assert await missing_crds(server) == ["the CRD copyrators.flant.com is not established yet"]


async def test_a_crd_of_our_name_without_our_version_is_said_and_not_waited_for_in_vain(
    server: Server,
) -> None:
    found = crd("copyrators.flant.com", ESTABLISHED)
    found["spec"]["versions"] = [{"name": "v1alpha1"}, {"name": "v1beta1"}]
    server.crds["copyrators.flant.com"] = found
    server.served.remove("copyrators.flant.com")
    (sentence,) = await missing_crds(server)
    assert "has the versions v1alpha1, v1beta1 and not v1" in sentence
    assert "docs/adoption.md" in sentence


async def test_established_is_not_enough_while_discovery_lags(server: Server) -> None:
    server.served.remove("copyrators.flant.com")
    (sentence,) = await missing_crds(server)
    assert sentence.endswith("the API server doesn't serve it yet")


async def test_without_the_right_to_read_crds_discovery_decides(server: Server) -> None:
    for name in CRDS:
        server.crds[name] = Forbidden("no right")
    assert await missing_crds(server) == []
    server.served.remove("bundles.operator.werf.dev")
    (sentence,) = await missing_crds(server)
    assert "grant get on customresourcedefinitions" in sentence


async def test_waiting_ends_when_the_last_one_is_there_and_told_each_change_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    present = dict(server.crds)
    server.crds = {}
    looks = 0

    async def sleep(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            server.crds["copyrators.flant.com"] = present["copyrators.flant.com"]
        if looks == 6:
            server.crds = present

    waiting = MissingPrerequisite("starting")
    with caplog.at_level(logging.WARNING):
        await wait_for_crds(server, waiting, sleep)
    assert looks == 6
    assert [record.getMessage().count("is missing") for record in caplog.records] == [2, 1]


async def test_a_server_that_does_not_answer_is_told_once_per_cause(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults = [Unreachable("refused"), Unreachable("refused"), Forbidden("nope")]
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    waiting = MissingPrerequisite("starting")
    with caplog.at_level(logging.WARNING):
        await wait_for_crds(server, waiting, sleep)
    assert [record.getMessage() for record in caplog.records] == [
        "Waiting: no response from the API server: refused"
    ]
    assert len(pauses) == 2  # 403 on a CRD isn't the API server's absence: discovery decides


class Candidate:
    """An elector whose attempts go as they are told, and then succeed."""

    def __init__(self, *answers: bool | ApiError) -> None:
        self.answers = list(answers)
        self.lease = Lease("ops", "copyrator", "me", DEFAULT_TERMS)
        self.pause = 0.25

    async def attempt(self) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, ApiError):
            raise answer
        return answer


class Standby:
    """Notes what a replica does while it waits for the lead."""

    def __init__(self, *answers: bool | ApiError) -> None:
        self.waiting = MissingPrerequisite("starting")
        self.candidate = Candidate(*answers)
        self.notes: list[str] = []

    async def wait_for_leadership(self) -> list[str]:
        await wait_for_leadership(self.candidate, self.waiting, self._warm_up, self._sleep)
        return self.notes

    async def _warm_up(self) -> None:
        self.notes.append("warm up")

    async def _sleep(self, seconds: float) -> None:
        slept = "pause" if seconds == self.candidate.pause else "back off"
        self.notes.append(f"{slept}, {'not ready' if self.waiting.reason else 'ready'}")


async def test_who_leads_at_once_warms_nothing_up() -> None:
    assert await Standby().wait_for_leadership() == []


async def test_a_standby_warms_up_once_and_is_ready_while_it_waits() -> None:
    assert await Standby(False, False, False).wait_for_leadership() == [
        "warm up",
        *["pause, ready"] * 3,
    ]


async def test_a_standby_that_cannot_read_the_lease_is_not_ready_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    standby = Standby(Forbidden("no get"), False, *[Unreachable("away")] * 2, False)
    assert await standby.wait_for_leadership() == [
        "back off, not ready",
        "warm up",
        "pause, ready",
        "back off, not ready",
        "back off, not ready",
        "pause, ready",
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "Waiting: the Lease ops/copyrator can't be acquired: Forbidden (403): no get",
        "Waiting: the Lease ops/copyrator can't be acquired: away",
    ]


async def test_pauses_grow_and_obey_the_server() -> None:
    errors: list[ApiError] = [Unreachable("away") for _ in range(8)]
    errors.append(TooManyRequests("busy", retry_after=33.0))
    pauses: list[float] = []

    async def attempt() -> str:
        if errors:
            raise errors.pop(0)
        return "there"

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    assert (
        await retry_until_done(attempt, MissingPrerequisite("starting"), "it fails", sleep)
        == "there"
    )
    assert pauses[0] < 0.7
    assert all(pause <= 12.0 for pause in pauses[:8])
    assert pauses[8] > 26.0
