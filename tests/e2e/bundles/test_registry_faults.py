"""Registries that misbehave: it is said what they do, nothing comes of it, and then it passes."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.component.oci.fake_registry import Handler, answering
from tests.e2e.bundles.bad_registry import Front, endless_pages, serving, stalling
from tests.e2e.bundles.conftest import Team, make_team, operating
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish
from tests.long import LONG

from localcluster import Api, Cluster

INTERVAL = 2
RETRY_AFTER = 4
NOTICED = 180.0
"""Seconds: a registry that stalls is waited for, and endless pages are read at a host's rate."""

FAULTS: dict[str, tuple[Handler, str, str]] = {
    "a-429": (answering(429, Retry_After=f"{RETRY_AFTER}"), "RateLimited", "responds with 429"),
    "a-401": (
        answering(401, WWW_Authenticate='Basic realm="x"'),
        "AuthenticationFailed",
        "set spec.auth to a Secret",
    ),
    "a-500": (answering(500), "RegistryUnreachable", "responds with 500"),
    "a-stall": (stalling, "RegistryUnreachable", "didn't respond in time"),
    "login-page": (
        answering(200, "<p>Please log in</p>"),
        "RegistryUnreachable",
        "isn't a manifest",
    ),
    "half-json": (answering(200, '{"tags": ["1.0.0", "9.'), "RegistryUnreachable", "tag list"),
    "no-tags": (answering(200, '{"tags": []}'), "NoMatchingVersion", "No tag matches"),
    "endless-pages": (endless_pages(), "RegistryUnreachable", "endless tag list"),
    "pages-elsewhere": (
        answering(200, '{"tags": ["9.9.9"]}', Link='<http://evil.example/v2/x>; rel="next"'),
        "RegistryUnreachable",
        "another host, http://evil.example:80; refused",
    ),
}
"""What a registry does, by the name of the Bundle that sees it: reason and words of its message."""

FAULT_AT = {
    "login-page": "/manifests/",
    **dict.fromkeys(("half-json", "no-tags", "endless-pages", "pages-elsewhere"), "/tags/list"),
}
"""Where it isn't all that the registry answers."""


DEPLOYED = ("a-401", "no-tags") if LONG else ("no-tags",)
"""Who has deployed before its registry misbehaves. The others' never did anything else before, and
in the end they are suspended, so that what they see then isn't deployed."""


@dataclass
class Scene:
    """A Bundle for each fault, each with a registry of its own before the real one."""

    team: Team
    fronts: dict[str, Front]
    first: str
    """What was deployed before the registries began to misbehave."""

    def available(self, name: str) -> str | None:
        """The digest that a Bundle sees in its registry."""
        found: str | None = self.team.status(name).get("available", {}).get("digest")
        return found


@pytest.fixture(scope="module")
def scene(cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Some Bundles have deployed 1.0.0; now the registries misbehave, and 2.0.0 is pushed."""
    directory = tmp_path_factory.mktemp("faults")
    namespace = f"faults-{os.getpid()}"
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    team = make_team(cluster, api, namespace, directory)
    fronts = {name: Front(behind=cluster.registry) for name in (*FAULTS, "expiring")}
    settings = {"WERF_OPERATOR_TIMER_INTERVAL": str(INTERVAL)}
    log = directory / "operator.log"
    with serving(*fronts.values()), operating(cluster, log, settings):
        scene = Scene(team, fronts, team.publish("1.0.0", "first"))
        for name in DEPLOYED:
            team.bundle(name, registry=fronts[name].host, version="*")
        for name in DEPLOYED:
            team.wait_deployed(name, scene.first)
            assert len(team.jobs(name)) == 1
        for name, (fault, _, _) in FAULTS.items():
            fronts[name].fault_at = FAULT_AT.get(name, "")
            fronts[name].fault = fault
        team.publish("2.0.0", "second")
        for name in FAULTS:
            if name not in DEPLOYED:
                team.bundle(name, registry=fronts[name].host, version="*")
        team.bundle("expiring", registry=fronts["expiring"].host, version="*", suspend=True)
        yield scene
    vanish(cluster, [namespace])


def test_a_token_that_the_registry_no_longer_takes_is_renewed_without_a_word(scene: Scene) -> None:
    front, team = scene.fronts["expiring"], scene.team
    until(lambda: scene.available("expiring"), "a version is seen")
    fetched = front.count("GET", "/token")

    front.forget_tokens()
    third = team.publish("3.0.0", "third")
    until(lambda: scene.available("expiring") == third, "the newest is seen")

    assert front.count("GET", "/token") > fetched
    assert "AuthenticationFailed" not in reasons(scene, "expiring")


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_said_and_nothing_is_deployed_or_taken_down(scene: Scene, name: str) -> None:
    _, reason, words = FAULTS[name]
    condition = scene.team.wait_reason(name, reason, NOTICED)
    status = scene.team.status(name)

    assert words in condition["message"]
    assert status["lastError"]["reason"] == reason
    deployed = {"version": "1.0.0", "digest": scene.first} if name in DEPLOYED else None
    assert status.get("deploy") == deployed
    assert status["nextPollAt"]
    assert len(scene.team.jobs(name)) == (name in DEPLOYED)
    assert scene.team.jobs(name, "uninstall") == []


def test_a_registry_that_asks_for_time_gets_it(scene: Scene) -> None:
    front = scene.fronts["a-429"]
    asked = len(front.times)
    until(lambda: len(front.times) >= asked + 2, seconds=NOTICED)
    gaps = [b - a for a, b in itertools.pairwise(front.times[asked - 1 :])]

    assert min(gaps) >= RETRY_AFTER - 0.5, gaps


def test_when_it_is_over_all_have_the_newest(scene: Scene) -> None:
    newest = scene.team.publish("4.0.0", "fourth")
    for name in FAULTS:
        if name not in DEPLOYED:
            scene.team.patch("bundles", name, spec={"suspend": True})
            assert scene.team.jobs(name) == []
    for name in FAULTS:
        scene.fronts[name].fault = None
    for name in FAULTS:
        until(lambda name=name: scene.available(name) == newest, f"{name} sees it", NOTICED)
    for name in DEPLOYED:
        scene.team.wait_deployed(name, newest, NOTICED)
        # What was pushed in between was never seen.
        assert len(scene.team.jobs(name)) == 2


def test_a_redirect_to_another_host_takes_no_credentials_along(scene: Scene) -> None:
    team, stranger = scene.team, Front(behind=scene.team.cluster.registry)
    stranger.fault = answering(401, WWW_Authenticate='Basic realm="give it to me"')
    front = Front(behind=team.cluster.registry, users={"alice": "s3cret-word"})
    team.create("secrets", "login", stringData={"username": "alice", "password": "s3cret-word"})
    with serving(stranger, front):
        team.bundle("led-astray", registry=front.host, auth="login", suspend=True)
        team.wait_reason("led-astray", "Suspended")

        front.fault = answering(307, Location=f"http://{stranger.host}/v2/{team.repo}/x")

        def refused() -> bool:
            error: dict[str, str] = team.status("led-astray").get("lastError", {})
            return error.get("reason") == "AuthenticationFailed"

        until(refused, "the registry refuses")

        assert stranger.asked
        assert set(stranger.seen_authorization) == {None}


def reasons(scene: Scene, name: str) -> set[str]:
    """Of all Events of a Bundle."""
    path = f"/api/v1/namespaces/{scene.team.namespace}/events"
    selector = f"involvedObject.kind=Bundle,involvedObject.name={name}"
    return {event["reason"] for event in scene.team.api.get(path, fieldSelector=selector)["items"]}
