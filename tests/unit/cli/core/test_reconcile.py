"""`copyrator reconcile` ends at once where a request waits for a gate."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from rich.text import Text

from copyrator.cli import cli
from copyrator.cli.core import output, reconcile, waiting
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.objects import ObjectReference


def bundle(ready: tuple[str, str], update: tuple[str, str, str], **status: str) -> dict[str, Any]:
    named = (("Ready", *ready, "fine"), ("UpdatePending", *update))
    found = [
        {"type": kind, "status": state, "reason": reason, "message": message}
        for kind, state, reason, message in named
    ]
    found.append({"type": "Reconciling", "status": "True", "reason": ready[1], "message": ""})
    return {
        "kind": "Bundle",
        "metadata": {"namespace": "apps", "name": "shop"},
        "status": {"conditions": found, **status},
    }


APPROVAL = ("True", "AwaitingApproval", "Gate approval: approve it.")
FROZEN = ("True", "Frozen", "Gate freeze: all namespaces are frozen: holidays")
DELAYED = {"lastFailedRequest": "now"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            bundle(("Unknown", "AwaitingApproval"), APPROVAL, **DELAYED),
            "waits for approval: copyrator approve bundle apps/shop",
        ),
        (
            bundle(("True", "Deployed"), FROZEN, **DELAYED),
            "waits: Frozen: Gate freeze: all namespaces are frozen: holidays",
        ),
        (
            bundle(("Unknown", "AwaitingApproval"), APPROVAL),
            "waits for approval: copyrator approve bundle apps/shop",
        ),
        (bundle(("True", "Deployed"), APPROVAL), ""),
        (bundle(("Unknown", "Planning"), ("True", "Planning", "the plan is being made")), ""),
        (bundle(("False", "TagNotFound"), ("False", "TagNotFound", ""), **DELAYED), ""),
    ],
    ids=["request", "request freeze", "edit", "only a newer version", "planning", "failed"],
)
def test_what_holds_up_what_is_asked_for(body: dict[str, Any], said: str) -> None:
    assert waiting.find_hold(body) == said


async def test_a_wait_tells_what_goes_on_and_ends_with_the_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planning = bundle(("Unknown", "Planning"), ("True", "Planning", "the plan is being made"))
    waits = bundle(("Unknown", "AwaitingApproval"), APPROVAL, **DELAYED)
    later = [planning, planning, waits]

    async def get(*_: object) -> dict[str, Any]:
        return later.pop(0)

    monkeypatch.setattr(waiting, "LOOK", 0.0)
    client = cast("Any", SimpleNamespace(get=get))
    found = await waiting.wait(
        client,
        "bundles",
        planning,
        60.0,
        lambda seen: "lastFailedRequest" in seen["status"],
        busy=lambda seen: not waiting.find_hold(seen),
    )
    assert found is waits
    assert capsys.readouterr().err == "bundle apps/shop: Planning: fine\n"


@pytest.mark.parametrize("width", [40, 80])
def test_progress_is_one_line_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for name, value in {"TERM": "xterm", "COLUMNS": f"{width}"}.items():
        monkeypatch.setenv(name, value)
    with output.progress() as tell:
        for number in range(3):
            tell(f"bundle apps/shop: Deploying 1.0.{number} " + "日本" * 70)
    said = Text.from_ansi(capsys.readouterr().err.replace("\r", "\n")).plain.splitlines()
    lines = [line for line in said if line.strip()]
    assert all("Deploying 1.0." in line and line.rstrip().endswith("…") for line in lines)
    assert max(map(cell_len, lines)) <= width


class Server:
    """An API server with one Bundle, whose states are read one after another."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.states = list(states)
        self.patches: list[dict[str, Any]] = []

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Server]:
        yield self

    async def get(self, *_: object) -> dict[str, Any]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def patch(
        self, _what: object, _place: str, _name: str, patch: Any, field_manager: str
    ) -> dict[str, Any]:
        assert field_manager == "copyrator-cli"
        self.patches.append(patch)
        return self.states[0]


SUSPENDED = "Error: bundle apps/shop is suspended; resume it: copyrator resume bundle apps/shop\n"


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "while it waits"])
def test_a_suspended_bundle_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    monkeypatch.setattr(waiting, "LOOK", 0.0)
    works = bundle(("True", "Deployed"), ("False", "UpToDate", ""))
    states = [works] * 3 * meanwhile + [works | {"spec": {"suspend": True}}]
    server = Server(*states)
    monkeypatch.setattr(Target, "connect", lambda _: server.connect())
    asked = ["reconcile", "bundle", "apps/shop", "--timeout", "5"]
    result = CliRunner().invoke(cli, asked, env={"COLUMNS": "200"})
    assert (result.exit_code, result.output) == (1, SUSPENDED)
    assert len(server.patches) == meanwhile, "nothing is left to be done later"


class Refusing(Server):
    """Its operator can't handle a request yet."""

    async def patch(self, *asked: Any, **more: Any) -> dict[str, Any]:
        found = await super().patch(*asked, **more)
        (token,) = self.patches[-1]["metadata"]["annotations"].values()
        found["status"]["lastFailedRequest"] = token
        return found


@pytest.mark.parametrize(
    ("ready", "update", "said"),
    [
        (
            ("True", "Deployed"),
            FROZEN,
            f"waits: Frozen: {FROZEN[2]}. The request stays, and is handled then",
        ),
        (
            ("False", "TagNotFound"),
            ("False", "TagNotFound", ""),
            "isn't ready; status TagNotFound: fine. The request stays, and is handled when the cau",
        ),
    ],
    ids=["a gate", "a fault"],
)
def test_why_a_request_isnt_handled_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, ready: Any, update: Any, said: str
) -> None:
    monkeypatch.setattr(waiting, "LOOK", 0.0)
    server = Refusing(bundle(ready, update))
    monkeypatch.setattr(Target, "connect", lambda _: server.connect())
    result = CliRunner().invoke(cli, ["reconcile", "bundle", "apps/shop"], env={"COLUMNS": "300"})
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: bundle apps/shop {said}")


async def test_what_is_begun_and_does_not_end_in_time_is_said_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "LOOK", 0.0)
    deploys = bundle(("Unknown", "Deploying"), ("True", "Deploying", ""))
    client = cast("Any", Server(deploys))
    said = "bundle apps/shop didn't finish within 0.01 s; its status is Deploying: fine"
    with pytest.raises(Fault, match=said):
        await waiting.wait(client, "bundles", deploys, 0.01, lambda _: True, busy=lambda _: True)


async def test_several_objects_are_suspended_in_the_order_in_which_they_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def one(_client: object, _what: str, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"namespace": namespace, "name": name, "generation": 1}}

    async def set_suspend(_client: object, what: str, body: Any, *, value: bool) -> Any:
        return body, f"{what} {body['metadata']['name']}: {value}"

    monkeypatch.setattr(reconcile, "one", one)
    monkeypatch.setattr(reconcile, "set_suspend", set_suspend)
    target = SimpleNamespace(connect=Server().connect, locate=Target(namespace_option="a").locate)
    wanted = [ObjectReference("rules", "x"), ObjectReference("bundles", "b/y")]
    options: Any = {"target": target, "what": "rules", "wanted": [*wanted, wanted[0]]}
    await reconcile._set_all(**options, every=False, value=True, timeout=0, shape=None)
    assert capsys.readouterr().out.splitlines() == ["rules x: True.", "bundles y: True."]
