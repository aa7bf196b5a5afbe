"""The operator dies at each step of a plain Bundle's life, and the next one goes on from there.

`STEPS` has a Bundle for each step. They all come to it under one operator, which is killed; then
happens what a row says; then an operator is started that lets them come to their ends.
"""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from tests.e2e.bundles.conftest import TEMPLATE, Operator, Team, operating
from tests.e2e.engine.conftest import BROKEN, Registry, noting, written
from tests.e2e.faults.proxy import Exchange, FaultProxy, only, relay, silent
from tests.e2e.operator_process import until

from localcluster import Cluster

pytestmark = pytest.mark.promise

TTL = 600
HELD = TEMPLATE.replace("-app\n", "-app\n  finalizers: [copyrator.test/held]\n", 1)
"""The uninstall of this release waits until a test takes the finalizer off."""
NEVER = {"limit": 0}
LATER = {"limit": 1, "backoff": "1h"}
SOON = {"limit": 1, "backoff": "8s"}
Do = Callable[[Team, str], object]


def nothing(team: Team, name: str) -> None:
    """Nothing happens."""


def push(team: Team, name: str) -> None:
    team.publish("1.0.0", "pushed", repo=f"{name}/app")


def delete(team: Team, name: str) -> None:
    team.delete("bundles", name)


def lose_job(team: Team, name: str) -> None:
    """As the TTL does to one that ended long ago."""
    job = team.first_job(name)
    team.delete("jobs", job, propagationPolicy="Background")
    team.wait_gone("jobs", job)


def wait_for_job(team: Team, name: str) -> None:
    """The Job ends while nobody looks."""
    job = team.first_job(name)
    until(lambda: (team.get("jobs", job) or {})["status"].get("completionTime"), "it ends")


def wait_for_retry(team: Team, name: str) -> None:
    if due := team.status(name)["attempted"].get("nextRetryAt"):  # else it has begun already
        until(lambda: datetime.now(UTC) > datetime.fromisoformat(due), "the retry is due")


def edit_values(team: Team, name: str) -> None:
    team.patch("configmaps", name, data={"a.yaml": "greeting: salut"})


def edit_spec(team: Team, name: str) -> None:
    team.patch("bundles", name, spec={"env": {"EDITED": "yes"}})


def force(team: Team, name: str) -> None:
    team.api.patch(team.path("bundles", name) + "/status", {"status": {"forceUpdate": 1}})


def pause(team: Team, name: str) -> None:
    team.annotate(name, **{"disable-autoupdate": ""})


@dataclass(frozen=True)
class Step:
    """Where a Bundle is when the operator dies, and how it ends."""

    at: str
    """The reason of its condition Ready; empty: the operator hasn't seen it."""
    ends: str
    """That at its end; empty: it is gone."""
    jobs: int = 1
    """How many deploy Jobs are made for it in all."""
    attempts: int = 0
    """How many attempts are on record, if more than Jobs: whether one ran can't be known."""
    spec: dict[str, Any] = field(default_factory=dict)
    chart: str = TEMPLATE
    """What is pushed before; empty: nothing."""
    stalls: bool = False
    """Whether its Job runs when the operator dies."""
    first: Do = nothing
    """What is done once it is deployed, to come to the step."""
    lost: tuple[str, int] = ("", 0)
    """The operator's first write that is lost: verb, resource, and which one of these."""
    arrives: bool = False
    """Whether it only isn't answered."""
    then: Do = nothing
    """What happens while no operator runs."""
    uninstalls: int = 0
    """How many uninstall Jobs are made."""

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do for an operator."""
        return self.at == self.ends and self.then in (nothing, push) and not any(self.lost)


STEPS = {
    "nothing-found": Step("TagNotFound", "TagNotFound", 0, chart=""),
    "deployed": Step("Deployed", "Deployed"),
    "failed": Step("DeployFailed", "DeployFailed", spec={"retry": LATER}, chart=BROKEN),
    "quarantined": Step("Quarantined", "Quarantined", spec={"retry": NEVER}, chart=BROKEN),
    "paused": Step("AutoupdateDisabled", "AutoupdateDisabled", first=pause, then=push),
    "unseen": Step("", "Deployed"),
    "found": Step("TagNotFound", "Deployed", chart="", then=push),
    "attempt-recorded": Step("Deploying", "Deployed", attempts=2, lost=("create jobs", 1)),
    "job-made": Step("Deploying", "Deployed", lost=("create jobs", 1), arrives=True),
    "job-runs": Step("Deploying", "Deployed", stalls=True),
    "job-ended": Step("Deploying", "Deployed", lost=("patch bundles/status", 2), then=wait_for_job),
    "outcome-recorded": Step("Deployed", "Deployed", lost=("patch jobs", 1)),
    "job-lost": Step("Deploying", "Deployed", 2, stalls=True, then=lose_job),
    "retry-due": Step(
        "DeployFailed", "Quarantined", 2, spec={"retry": SOON}, chart=BROKEN, then=wait_for_retry
    ),
    "values-edited": Step("Deployed", "Deployed", 2, spec={"interval": "1h"}, then=edit_values),
    "spec-edited": Step("Deploying", "Deployed", 2, stalls=True, then=edit_spec),
    "forced": Step("Deployed", "Deployed", 2, spec={"interval": "1h"}, then=force),
    "deleted": Step("Deployed", "", then=delete, uninstalls=1),
    "gone-while-it-runs": Step("Deploying", "", stalls=True, then=delete, uninstalls=1),
    "uninstalling": Step("Uninstalling", "", chart=HELD, first=delete, uninstalls=1),
    "uninstalled": Step("Uninstalling", "", first=delete, lost=("patch bundles", 2), uninstalls=1),
}


class Losing(FaultProxy):
    """The way to the API server, on which writes of `STEPS` are lost."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.writes: Counter[tuple[str, str]] = Counter()
        self.lost: set[str] = set()
        """The Bundles of which one was lost."""

    async def pass_or_lose(self, exchange: Exchange) -> web.StreamResponse:
        seen = exchange.seen
        write = f"{seen.verb} {seen.resource}"
        place = json.loads(exchange.body)["metadata"]["name"] if seen.verb == "create" else ""
        name = next((one for one in STEPS if f"/{one}" in f"{seen.path}/{place}"), "")
        self.writes[name, write] += 1
        if (
            not name
            or STEPS[name].lost[0] != write
            or self.writes[name, write] < STEPS[name].lost[1]
        ):
            return await relay(exchange)
        if STEPS[name].arrives:
            async with await exchange.ask():
                pass
        self.lost.add(name)
        return await silent(exchange)


@dataclass
class Lives:
    """The Bundles of `STEPS`, the operator, and what was seen of both."""

    team: Team
    operator: Operator
    registry: Registry
    since: int = 0
    """The place in the audit log before an operator was started again."""
    asked: Counter[str] = field(default_factory=Counter)
    """Requests to the registry for each Bundle, since then."""

    @property
    def resting(self) -> list[str]:
        return [name for name, step in STEPS.items() if step.rests]

    def reason(self, name: str) -> str:
        return str(self.team.condition(name).get("reason", ""))

    def restart(self) -> None:
        """Start an operator, and let it poll."""
        repos = [f"{name}/app" for name in self.resting if name != "paused"]
        before = Counter({name: self.registry.requests(f"{name}/app") for name in STEPS})
        self.since = self.team.cluster.audit_offset()
        self.operator.start()
        self.registry.wait_polled(*repos)
        now = Counter({name: self.registry.requests(f"{name}/app") for name in STEPS})
        self.asked = now - before


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Iterator[Registry]:
    with noting(cluster) as registry:
        yield registry


@pytest.fixture(scope="module")
def lives(
    cluster: Cluster,
    lasting_team: Team,
    registry: Registry,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lives]:
    """The operator was killed with each Bundle at its step, and another one runs."""
    team = lasting_team
    directory = tmp_path_factory.mktemp("operator")
    often = {"WERF_OPERATOR_TIMER_INTERVAL": "1", "WERF_OPERATOR_JOBS_TTL": str(TTL)}
    with (
        Losing(cluster) as proxy,
        operating(cluster, directory / "operator.log", often) as operator,
    ):
        lives = Lives(team, operator, registry)
        operator.stop()
        direct, operator.kubeconfig = operator.kubeconfig, directory / "kubeconfig"
        proxy.kubeconfig(direct, operator.kubeconfig)
        operator.start()
        writes = only("create", "patch", of=("bundles", "jobs"))
        with proxy.fault(proxy.pass_or_lose, writes):
            come_to_their_steps(lives, proxy)
            operator.stop(signal.SIGKILL)
        for name, step in STEPS.items():
            step.then(team, name)
        create(lives, "unseen")
        operator.kubeconfig = direct
        lives.restart()
        registry.stalling.clear()
        until(lambda: team.jobs("uninstalling", "uninstall"))
        team.patch("configmaps", "uninstalling-app", metadata={"finalizers": None})
        yield lives


def come_to_their_steps(lives: Lives, proxy: Losing) -> None:
    """Those whose Jobs run at last: no other Job would end meanwhile."""
    team = lives.team
    steps = {name: step for name, step in STEPS.items() if step.at}
    last = "retry-due"  # the operator mustn't live until then

    def wait(name: str) -> None:
        step = steps[name]
        if step.first is not nothing:
            team.wait_reason(name, "Deployed")
            step.first(team, name)
        if step.stalls:
            job = team.first_job(name)
            until(lambda: (team.get("jobs", job) or {})["status"].get("ready"), "its pod runs")
        until(lambda: lives.reason(name) == step.at, lambda: f"{name}: {team.status(name)}")
        until(lambda: step.lost[0] == "" or name in proxy.lost, f"a write for {name} is lost")

    early = [name for name in steps if not steps[name].stalls and name != last]
    for name in early:
        create(lives, name)
    for name in early:
        wait(name)
    lives.registry.stalling.set()
    stalling = [name for name in steps if steps[name].stalls]
    for name in stalling:
        create(lives, name)
    for name in stalling:
        wait(name)
    until(lambda: all(is_settled(team, name, steps[name].at) for name in lives.resting))
    create(lives, last, registry=team.cluster.registry)
    wait(last)


def create(lives: Lives, name: str, registry: str = "") -> None:
    step, team, repo = STEPS[name], lives.team, f"{name}/app"
    registry = registry or lives.registry.host
    if step.chart:
        team.publish("1.0.0", "first", repo=repo, template=step.chart)
    else:
        team.publish("0.9.0", "other", repo=repo)
    team.create("configmaps", name, data={"a.yaml": "greeting: hello"})
    team.bundle(name, registry=registry, repo=repo, values=name, **step.spec)


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.rests])
def test_a_restart_writes_nothing_where_nothing_is_new(lives: Lives, name: str) -> None:
    step = STEPS[name]
    assert not written(lives.operator, lives.team, lives.since, name)
    assert lives.reason(name) == step.ends
    assert bool(lives.asked[name]) is (name != "paused")


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if not step.rests])
def test_a_restart_goes_on_where_it_was(lives: Lives, name: str) -> None:
    step, team = STEPS[name], lives.team
    if step.ends:
        until(lambda: is_settled(team, name, step.ends), lambda: str(team.status(name)))
        assert team.status(name)["attempted"]["attempt"] == (step.attempts or step.jobs)
    else:
        team.wait_gone("bundles", name)
        assert team.release(name) is None


def is_settled(team: Team, name: str, reason: str) -> bool:
    """Whether it is at rest for this reason, and its Jobs go some time later."""
    bundle = team.get("bundles", name) or {}
    status = bundle["status"]
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    return (
        ready["reason"] == reason
        and status["observedGeneration"] == bundle["metadata"]["generation"]
        and status.get("attempted", {}).get("outcome") != "Running"
        and all(job["spec"]["ttlSecondsAfterFinished"] == TTL for job in team.jobs(name))
    )


def test_no_deploy_and_no_uninstall_has_two_jobs(lives: Lives) -> None:
    """All have come to their ends."""
    made = Counter(
        one.name.rpartition("-")[0]
        for one in lives.operator.writes(0, at={lives.team.namespace})
        if (one.verb, one.resource, one.code) == ("create", "jobs", 201)
    )
    deploys = Counter({f"{name}-deploy": step.jobs for name, step in STEPS.items()})
    uninstalls = Counter({f"{name}-uninstall": step.uninstalls for name, step in STEPS.items()})
    assert made == deploys + uninstalls


def test_what_happened_meanwhile_is_told_and_deployed(lives: Lives) -> None:
    team = lives.team
    lost = [one["reason"] for one in team.status("job-lost")["history"]]
    assert lost == ["Deployed", "JobLost"]
    assert (team.release("found") or {})["text"] == "pushed"
    assert (team.release("values-edited") or {})["greeting"] == "salut"


def test_the_cause_of_each_attempt_is_what_it_was_when_it_began(lives: Lives) -> None:
    causes = {
        "job-runs": ["NewVersion"],
        "job-ended": ["NewVersion"],
        "job-lost": ["Retry", "NewVersion"],
        "retry-due": ["Retry", "NewVersion"],
        "values-edited": ["ValuesChanged", "NewVersion"],
        "spec-edited": ["SpecChanged", "NewVersion"],
        "forced": ["Requested", "NewVersion"],
    }
    for name, expected in causes.items():
        past = lives.team.status(name)["history"]
        assert [one["cause"] for one in past] == expected, name
        is_edited = [one["cause"] == "SpecChanged" for one in past]
        assert ["by" in one for one in past] == is_edited, name


def test_when_all_have_come_to_their_ends_a_restart_writes_nothing(lives: Lives) -> None:
    assert lives.operator.stop() == 0

    lives.restart()

    assert not written(lives.operator, lives.team, lives.since)
