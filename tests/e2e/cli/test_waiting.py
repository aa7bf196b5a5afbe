"""Commands that start something wait until it has ended: --wait, --timeout, and a rollback."""

import asyncio
import json
import re
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
from tests.e2e.cli.conftest import ROOT, Stage, copying, plainly, secret
from tests.e2e.cli.terminal import typed
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until

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


def a_plan(desk: Desk) -> None:
    desk.make_bundle("AwaitingApproval", approval={"mode": "Always"})


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
    "an approved plan": (
        a_plan,
        "approve {bundle} --yes --wait",
        "approved; status Deployed: 1.0.0 ",
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


PIN = "operator.werf.dev/pin"
SKIPPED = "operator.werf.dev/skip-digests"


def test_a_bad_version_is_left_skipped_and_not_deployed_again(stage):
    bundles, repo = BUNDLES.format(stage.apps), f"team/back-{stage.apps}"
    shown = f"bundle {stage.apps}/web"

    def put(tag):
        return push(ROOT / "examples" / "charts" / "hello", stage.cluster.registry, repo, tag)

    def body():
        return stage.api.get(f"{bundles}/web")

    def runs(digest):
        def look():
            status = body().get("status", {})
            return status.get("deployed", {}).get("digest") == digest and (
                stage.ready(bundles, "web").get("reason") == "Deployed"
            )

        until(look, lambda: f"{digest}: {body()}")

    first = put("1.0.0")
    stage.apply(stage.bundle("web", repo))
    runs(first)
    said = stage.types(f"rollback {shown}", code=1)
    assert "has no earlier successful deploy in its history" in " ".join(said.split())
    second = put("1.1.0")
    runs(second)

    said = " ".join(stage.types(f"skip {shown} 1.1.0", code=1).split())
    assert f"1.1.0 ({second}) is what {shown} runs" in said
    assert f"copyrator rollback {shown}" in said
    assert SKIPPED not in body()["metadata"].get("annotations", {})

    said = " ".join(stage.types(f"rollback {shown}").split())
    assert f"Rolling back {shown} from 1.1.0 ({second[:19]}) to 1.0.0 ({first[:19]})" in said
    assert "with today's values and spec" in said
    assert f"{shown} runs 1.0.0 ({first[:19]})" in said
    assert said.endswith(f"until: copyrator unpin {shown}")
    assert body()["status"]["deployed"]["digest"] == first
    assert body()["metadata"]["annotations"][PIN] == f"1.0.0@{first}"
    said = plainly(stage.types(f"history {shown}"))
    assert "Succeeded Rollback Deployed by field manager copyrator-cli\n" in said
    assert said.count("Rollback") == 1
    assert "web Waiting Pinned AGE 1.0.0 1.1.0" in plainly(
        stage.types(f"get bundles -n {stage.apps}")
    )
    assert f"copyrator unpin {shown}" in plainly(stage.types(f"describe {shown}"))
    assert "pin: passed: only 1.0.0 (DIGEST)" in plainly(stage.types(f"why {stage.apps}/web"))
    assert re.search(r"Normal Pinned\b", plainly(stage.types(f"describe {shown}")))

    said = " ".join(stage.types(f"skip {shown} 1.1.0").split())
    assert f"{shown} skips {second}, the newest of 1.1.0 that the operator has seen" in said
    assert body()["metadata"]["annotations"][SKIPPED] == second
    said = " ".join(stage.types(f"unpin {shown}").split())
    assert f"{shown} isn't pinned to 1.0.0 ({first[:19]}) any more" in said
    assert stage.types(f"unpin {shown}") == f"{shown} isn't pinned.\n"
    until(lambda: "Skipped" in json.dumps(body()["status"].get("available", {})), body)
    assert body()["status"]["deployed"]["digest"] == first
    third = put("1.1.1")
    runs(third)

    said = " ".join(stage.types(f"rollback {shown} --to 1.1.0", code=1).split())
    assert "Skipped" in said, "a gate refuses it, and what runs stays"
    assert body()["status"]["deployed"]["digest"] == third
    said = " ".join(stage.types(f"unskip {shown} 1.1.0").split())
    assert said == f"{shown} doesn't skip {second} any more."
    runs(second)
    said = " ".join(stage.types(f"unpin {shown} --wait").split())
    assert f"; status Deployed: 1.1.1 ({third[:19]}) is deployed" in said
    assert body()["status"]["deployed"]["digest"] == third
    said = " ".join(stage.types(f"rollback {shown} --to 1.1.0").split())
    assert f"runs 1.1.0 ({second[:19]})" in said, "the same value counts again"

    stage.cluster.kubectl(
        "annotate", "--overwrite", "bundle", "web", "-n", stage.apps, f"{PIN}=9.9.9@{third}"
    )
    until(lambda: "refused" in body()["status"]["pin"], body)
    assert "was deployed as 1.1.1, not as 9.9.9" in stage.types(f"describe {shown}").replace(
        "\n", " "
    ).replace("  ", "")
    assert body()["status"]["deployed"]["digest"] == second

    day = (datetime.now(UTC) + timedelta(days=3)).strftime("%a")
    window = {"days": [day], "from": "09:00", "to": "10:00", "timeZone": "UTC"}
    stage.api.patch(f"{bundles}/web", {"spec": {"windows": [window]}})
    said = " ".join(stage.types(f"rollback {shown} --to 1.0.0", code=1).split())
    assert f"is pinned to 1.0.0 ({first[:19]}) and waits: OutsideWindow: " in said
    assert said.endswith(f"To end that: copyrator unpin {shown}")
    assert body()["status"]["deployed"]["digest"] == second
    stage.types(f"suspend {shown}")
    said = " ".join(stage.types(f"rollback {shown} --to 1.1.1").split())
    assert f"is pinned to 1.1.1 ({third[:19]}), which is deployed when it is resumed" in said
