"""`copyrator reconcile` ends at once where a request waits for a gate."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.cli.core import reconcile, waiting


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
