"""`copyrator reconcile` ends at once where a request waits for a gate."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.cli.core import reconcile, waiting
from copyrator.cli.core.cluster import Target
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
        (bundle(("Unknown", "AwaitingApproval"), APPROVAL), ""),
        (bundle(("False", "TagNotFound"), ("False", "TagNotFound", ""), **DELAYED), ""),
    ],
    ids=["approval", "freeze", "not delayed", "failed"],
)
def test_what_a_request_waits_for(body: dict[str, Any], said: str) -> None:
    assert reconcile._waits(body) == said


async def test_a_wait_tells_what_goes_on_and_ends_with_the_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planning = bundle(("Unknown", "Planning"), ("True", "Planning", "the plan is being made"))
    waits = bundle(("Unknown", "AwaitingApproval"), APPROVAL, **DELAYED)
    later = [planning, planning, waits]

    async def get(*_: object) -> dict[str, Any]:
        return later.pop(0)

    monkeypatch.setattr(waiting, "LOOK", 0.0)
    monkeypatch.setattr(waiting, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=bool)))
    monkeypatch.setattr(waiting.sys.stderr, "isatty", lambda: True)
    client = cast("Any", SimpleNamespace(get=get))
    found = await waiting.wait(
        client,
        "bundles",
        planning,
        60.0,
        lambda seen: "lastFailedRequest" in seen["status"],
        busy=lambda seen: not reconcile._waits(seen),
    )
    assert found is waits
    assert capsys.readouterr().err.count("Planning: fine") == 1


TERMINAL = SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True))


async def test_a_wait_for_an_approval_does_not_tell_that_it_is_awaited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = bundle(("True", "Deployed"), ("False", "UpToDate", ""), lastHandledRequest="now")

    async def get(*_: object) -> dict[str, Any]:
        return done

    monkeypatch.setattr(waiting, "LOOK", 0.0)
    monkeypatch.setattr(waiting, "sys", TERMINAL)
    await waiting.wait(
        cast("Any", SimpleNamespace(get=get)),
        "bundles",
        bundle(("Unknown", "AwaitingApproval"), APPROVAL),
        60.0,
        lambda seen: "lastHandledRequest" in seen["status"],
    )
    assert not capsys.readouterr().err


def test_progress_says_its_reason_once_and_is_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "sys", TERMINAL)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    body = bundle(("Unknown", "Deploying"), ("True", "Deploying", ""))
    body["status"]["conditions"][0]["message"] = "Deploying 1.0.1 with the Job " + "x" * 70
    waiting._tell(body, "")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Deploying 1.0.1")
    assert max(map(len, lines)) <= 80


def test_several_objects_are_suspended_in_the_order_in_which_they_are_named(monkeypatch, capsys):
    async def one(client, what, namespace, name):
        return f"{what} {namespace}/{name}"

    async def set_suspend(client, what, body, *, value, seconds):
        return body, f"{body}: {value}"

    monkeypatch.setattr(reconcile, "one", one)
    monkeypatch.setattr(reconcile, "set_suspend", set_suspend)
    target = SimpleNamespace(connect=no_connection, locate=Target(namespace_option="a").locate)
    wanted = [ObjectReference("rules", "x"), ObjectReference("bundles", "b/y")]
    options = {"target": target, "what": "rules", "wanted": [*wanted, wanted[0]], "shape": None}
    asyncio.run(reconcile._set_all(**options, every=False, value=True, timeout=0))
    assert capsys.readouterr().out.splitlines() == ["rules a/x: True", "bundles b/y: True"]


@asynccontextmanager
async def no_connection():
    yield None
