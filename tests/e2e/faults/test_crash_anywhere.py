"""The operator dies at random moments while everything changes: nothing is lost, none done twice.

A run prints its seed; COPYRATOR_SEED=<seed> makes the same decisions again.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.faults import attempts, oracle
from tests.e2e.faults.attempts import Records
from tests.e2e.faults.churn import Churn
from tests.e2e.faults.fleet import Fleet
from tests.e2e.faults.recorder import Recorder
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.vanishing import sweep
from tests.long import long_form

from localcluster import Api, Cluster
from localcluster.audit import WRITE_VERBS, Requests

KILLS = 50
BUNDLES = 3
IN_THE_CRADLE = 0.25
"""The share of lives that end before the operator has said that it is ready."""
APPROVED = 0.3
"""The share of changes after which a person approves all that waits."""
LONGEST_LIFE = 2.0
"""Times as long as a start takes, counted from its end: a slow machine gets more time."""
SETTLED = 240.0
"""Seconds until all is right after the last start, on a loaded machine: deploys take a while."""
QUIET = 3.0
SETTINGS = {
    "WERF_OPERATOR_TIMER_INTERVAL": "3",
    "WERF_OPERATOR_TIMER_IDLE": "0",
    "WERF_OPERATOR_JOBS_TTL": "86400",
    "POD_NAME": "copyrator-0",
}


@dataclass
class Run:
    """One operator that dies again and again, and the world that it looks after."""

    cluster: Cluster
    home: str
    kubeconfig: Path
    logs: Path
    random: Random
    churn: Churn
    fleet: Fleet
    records: Records
    began: float = field(default_factory=time.monotonic)
    starts: int = 0
    start_takes: float = 2.0
    """Seconds, on this machine, now."""

    @property
    def user(self) -> str:
        """The operator, as the audit log names it."""
        return f"system:serviceaccount:{self.home}:copyrator"

    def operator(self) -> OperatorProcess:
        """Start it, under a name that stays as a pod's of a StatefulSet does."""
        self.starts += 1
        log = self.logs / f"operator-{self.starts:03}.log"
        settings = {**SETTINGS, "NAMESPACE": self.home}
        return OperatorProcess(self.kubeconfig, log, settings=settings, real=True)

    def live_and_die(self) -> None:
        dies_young = self.random.random() < IN_THE_CRADLE
        life = self.random.uniform(0, 1) * (1.0 if dies_young else LONGEST_LIFE)
        moments = sorted(self.random.uniform(0, life) for _ in range(self.random.randint(2, 8)))
        with self.operator() as process:
            began = time.monotonic()
            if not dies_young:
                process.wait_ready()
                self.start_takes = time.monotonic() - began
            born = time.monotonic()
            for moment in moments:
                _sleep_until(born + moment * self.start_takes)
                self.change()
                if self.random.random() < APPROVED:
                    self.say(f"approved {self.fleet.approve_all()}")
            _sleep_until(born + life * self.start_takes)
            assert process.code is None, f"it ended unexpectedly:\n{process.log}"
            process.kill()
        self.say(f"killed after {time.monotonic() - began:.1f} s")
        for _ in range(self.random.randrange(4)):
            self.change(up=False)

    def change(self, *, up: bool = True) -> None:
        is_copying = self.random.random() < 0.75
        self.say(self.churn.change(up=up) if is_copying else self.fleet.change())

    def approved_faults(self) -> list[str]:
        """What is wrong, once all that waits for approval has it."""
        self.fleet.approve_all()
        return self.faults()

    def faults(self) -> list[str]:
        """What is wrong; a look at all copies, which is a hundred requests, comes last."""
        return attempts.faults(self.fleet, self.records) or oracle.faults(self.churn)

    def attempts(self) -> Counter[str]:
        """How many attempts at a deploy there were, by what came of them."""
        releases = [*self.fleet.live.values(), *self.fleet.gone.values()]
        return Counter(
            told[-1].get("reason") or told[-1]["outcome"]
            for release in releases
            for told in self.records.attempts(release.uid).values()
        )

    def jobs_not_looked_at(self, requests: Requests) -> list[str]:
        """Jobs that were made and not recorded, or recorded and not made by the operator.

        When the operator dies while it waits for the answer to a create, the audit log says 504
        whether the Job was made or not.
        """
        asked = requests.all(user=self.user, verb="create", resource="jobs")
        made = Counter(event.name for event in asked if event.code == 201)
        in_doubt = Counter(event.name for event in asked if event.code == 504)
        seen = Counter(job["metadata"]["name"] for job in self.records.jobs.newest().values())
        return sorted([*(made - seen), *(seen - made - in_doubt)])

    def wait_quiet(self) -> None:
        """Wait until the operator has written nothing for some seconds."""
        offset, since = self.cluster.audit_offset(), time.monotonic()

        def quiet() -> bool:
            nonlocal offset, since
            events = self.cluster.audit_events(offset)
            own = ("events", "leases")  # an Event may be late, and a Lease is renewed for ever
            if any(
                event.user == self.user and event.verb in WRITE_VERBS and event.resource not in own
                for event in events
            ):
                offset, since = self.cluster.audit_offset(), time.monotonic()
            return time.monotonic() - since > QUIET

        until(quiet, "the operator writes no more")

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} {what}")  # noqa: T201 - shown when it fails


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


@pytest.fixture
def run(cluster: Cluster, api: Api, namespace: Callable[..., str], tmp_path: Path) -> Iterator[Run]:
    seed = int(os.environ.get("COPYRATOR_SEED") or secrets.randbelow(10**9))
    print(f"COPYRATOR_SEED={seed}")  # noqa: T201 - shown when it fails
    home, word = f"op-{secrets.token_hex(3)}", f"t{secrets.token_hex(3)}"
    kubeconfig = install(cluster, home)
    team = make_team(cluster, api, namespace("team"), tmp_path)
    random = Random(seed)
    churn, fleet = Churn(api, random, home, word), Fleet(team, random)
    with ExitStack() as stack:
        stack.callback(uninstall, cluster, home)
        stack.callback(sweep, cluster, word)
        watches = [
            stack.enter_context(Recorder(api, path))
            for path in (
                team.path("bundles"),
                team.path("jobs"),
                f"/api/v1/namespaces/{team.namespace}/pods",
            )
        ]
        yield Run(cluster, home, kubeconfig, tmp_path, random, churn, fleet, Records(*watches))


@long_form("tests/component/bundles/test_crashes.py::test_dies_after_any_write")
@pytest.mark.timeout(1800)
def test_dies_anywhere_and_does_all_of_its_work_once(run: Run) -> None:
    requests = run.cluster.requests()
    run.churn.begin()
    run.fleet.begin(BUNDLES)
    for _ in range(KILLS):
        run.live_and_die()
    run.churn.finish()
    run.fleet.finish()
    with run.operator() as process:
        run.say("started for good")
        until(lambda: not run.approved_faults(), lambda: "\n".join(run.faults()), SETTLED)
        run.say(f"all is right: {len(oracle.wanted(run.churn))} copies; {run.attempts()}")
        run.fleet.edit_all_by_hand()
        time.sleep(run.random.uniform(0, 2 * run.start_takes))
        process.kill()
        run.say("killed while drift is found and corrected")
    with run.operator() as process:
        until(lambda: not run.faults(), lambda: "\n".join(run.faults()), SETTLED)
        run.say(f"all is right again: {run.attempts()}")
        process.wait_ready()  # all may have been right before it has begun
        run.wait_quiet()
        assert run.faults() == [], "it stays right"
        assert run.jobs_not_looked_at(requests) == []
        assert process.stop(signal.SIGTERM) == 0
    for log in sorted(run.logs.glob("operator-*.log")):
        assert "Traceback" not in log.read_text(), log.read_text()
