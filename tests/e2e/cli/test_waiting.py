"""Commands that start something wait until it has ended: --wait and --timeout."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import Handler
from tests.e2e.bundles.bad_registry import Front, serving
from tests.e2e.cli.conftest import ROOT, Stage, copying, secret
from tests.e2e.cli.terminal import typed
from tests.e2e.installation import BUNDLES, RULES

from localcluster.bundle import push


@dataclass
class Desk:
    """An operator, and a rule and a Bundle of one test, which have its word as name."""

    stage: Stage
    word: str
    namespace: Callable[..., str]

    @property
    def words(self) -> dict[str, str]:
        """For commands and what they say."""
        apps, home, word = self.stage.apps, self.stage.home, self.word
        repository = f"{self.stage.cluster.registry}/team/{word}"
        found = {"apps": apps, "home": home, "word": word, "repository": repository}
        return found | {"bundle": f"bundle {apps}/{word}", "rule": f"rule {home}/{word}"}

    def types(self, command: str, code: int = 0) -> str:
        """What a command prints, in one line."""
        return " ".join(self.stage.types(command.format(**self.words), code).split())

    def push(self, tag: str) -> None:
        chart = ROOT / "examples" / "charts" / "hello"
        push(chart, self.stage.cluster.registry, f"team/{self.word}", tag)

    def make_bundle(self, reason: str, **spec: Any) -> None:
        """A Bundle of 1.0.0 that has this reason."""
        self.push("1.0.0")
        self.stage.apply(self.stage.bundle(self.word, f"team/{self.word}", **spec))
        self.stage.wait_reason(BUNDLES.format(self.stage.apps), self.word, reason)

    def make_rule(self, reason: str, *namespaces: str, **spec: Any) -> None:
        """The same for a rule."""
        self.stage.apply(copying(self.stage.home, self.word, *namespaces, **spec))
        self.stage.wait_reason(RULES.format(self.stage.home), self.word, reason)

    def make_source(self, content: str = "a") -> None:
        source = secret(self.stage.home, self.word)
        self.stage.apply({**source, "stringData": {"key": content}})


@pytest.fixture
def desk(stage: Stage, word: str, namespace: Callable[..., str]) -> Iterator[Desk]:
    yield Desk(stage, word, namespace)
    stage.types(f"thaw -n {stage.apps}")
    for kind, place in (("bundle", stage.apps), ("copyrator", stage.home)):
        stage.cluster.kubectl(
            *("delete", kind, word, "-n", place, "--ignore-not-found", "--timeout=120s")
        )


def a_pushed_version(desk: Desk) -> None:
    desk.push("1.0.0")


def a_source(desk: Desk) -> None:
    desk.make_source()
    desk.namespace(desk.word)


def a_suspended_rule(desk: Desk) -> None:
    a_source(desk)
    desk.make_rule("Suspended", f"{desk.word}-*", suspend=True)


def a_rollout(desk: Desk) -> None:
    desk.make_source()
    for _ in range(3):
        desk.namespace(desk.word)
    rollout = {"steps": ["1", "100%"], "pause": "1h"}
    desk.make_rule("Synced", f"{desk.word}-*", rollout=rollout)
    desk.make_source("b")
    desk.stage.wait_reason(RULES.format(desk.stage.home), desk.word, "RollingOut")


def an_edited_suspended_bundle(desk: Desk) -> None:
    desk.make_bundle("Deployed")
    labels = {"app.kubernetes.io/part-of": "edited"}  # the release's objects get them
    edit = {"metadata": {"labels": labels}, "spec": {"suspend": True}}
    desk.stage.api.patch(f"{BUNDLES.format(desk.stage.apps)}/{desk.word}", edit)
    desk.stage.wait_reason(BUNDLES.format(desk.stage.apps), desk.word, "Suspended")


def one_outside_its_window(desk: Desk) -> None:
    day = (datetime.now(UTC) + timedelta(days=3)).strftime("%a")
    window = {"days": [day], "from": "09:00", "to": "10:00", "timeZone": "UTC"}
    desk.make_bundle("Suspended", suspend=True, windows=[window])


def one_that_needs_approval(desk: Desk) -> None:
    desk.make_bundle("Suspended", suspend=True, approval={"mode": "Always"})


def a_plan(desk: Desk) -> None:
    desk.make_bundle("AwaitingApproval", approval={"mode": "Always"})


def a_plan_in_a_freeze(desk: Desk) -> None:
    a_plan(desk)
    desk.types("freeze -n {apps} --reason inventory")


CREATE_RULE = "create rule {word} --source {home}/{word} --to {word}-* --wait"
CREATE_BUNDLE = "create bundle {word} -n {apps} --insecure --from {repository} --wait --version"
CASES = {
    "a new rule": (a_source, CREATE_RULE, "{rule} created; status Synced: 1 copy is up to date"),
    "a new rule fails": (None, CREATE_RULE, "Error: {rule} isn't ready; status SourceNotFound: "),
    "a new bundle": (
        a_pushed_version,
        f"{CREATE_BUNDLE} 1.*",
        "{bundle} created; status Deployed: 1.0.0 ",
    ),
    "a new bundle fails": (
        a_pushed_version,
        f"{CREATE_BUNDLE} 2.*",
        "Error: {bundle} isn't ready; status NoMatchingVersion: ",
    ),
    "a resumed rule": (
        a_suspended_rule,
        "resume {rule} --wait",
        "{rule} resumed; status Synced: 1 copy is up to date",
    ),
    "a resumed bundle": (
        an_edited_suspended_bundle,
        "resume {bundle} --wait",
        " is deployed as revision 2",
    ),
    "a window holds it up": (
        one_outside_its_window,
        "resume {bundle} --wait",
        "Error: {bundle} waits: OutsideWindow: ",
    ),
    "an approval is needed": (
        one_that_needs_approval,
        "resume {bundle} --wait",
        "Error: {bundle} waits for approval: copyrator approve {bundle}",
    ),
    "an approved plan": (
        a_plan,
        "approve {bundle} --yes --wait",
        "approved; status Deployed: 1.0.0 ",
    ),
    "an approved plan in a freeze": (
        a_plan_in_a_freeze,
        "approve {bundle} --yes --wait",
        " is approved, and waits: Frozen: ",
    ),
    "a rollout": (
        a_rollout,
        "rollout finish {rule} --wait",
        "without further steps; status Synced: 3 copies",
    ),
}


@pytest.mark.parametrize(("before", "command", "said"), CASES.values(), ids=CASES)
def test_it_waits_for_what_it_has_started(
    desk: Desk, before: Callable[[Desk], None] | None, command: str, said: str
) -> None:
    if before is not None:
        before(desk)
    wanted = said.format(**desk.words)
    printed = desk.types(command, code=int("Error: " in said or " waits: " in said))
    assert wanted in printed


def held(front: Front, answers: threading.Event) -> Handler:
    """Passes requests on once it answers."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(answers.wait)
        return await front._forward(request)

    return answer


def test_ctrl_c_says_that_the_operator_continues(desk: Desk) -> None:
    front, answers = Front(behind=desk.stage.cluster.registry), threading.Event()
    front.fault = held(front, answers)
    desk.push("1.0.0")
    with serving(front):
        source = f"{front.host}/team/{desk.word}"
        command = f"{CREATE_BUNDLE} 1.*".format(**{**desk.words, "repository": source})
        with typed(desk.stage, command) as (terminal, process):
            terminal.read_until("Polling")
            process.send_signal(signal.SIGINT)
            assert terminal.read_to_the_end(process) == 130
        said = "Interrupted. The operator continues with {bundle}; to see it: copyrator describe "
        assert said.format(**desk.words) in " ".join(terminal.output.split())
        answers.set()
        desk.stage.wait_reason(BUNDLES.format(desk.stage.apps), desk.word, "Deployed")
        desk.stage.cluster.kubectl(
            "delete", "bundle", desk.word, "-n", desk.stage.apps, "--timeout=120s"
        )
