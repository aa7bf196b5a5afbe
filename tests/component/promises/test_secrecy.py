"""What no status, Event or log shows: texts of templates, kubeconfigs, a registry's markup."""

from __future__ import annotations

import base64
import json
import logging
import unicodedata
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import ALWAYS, approve, deployed, idle, waits
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, answering

HIDDEN = "hunter2-of-the-template"


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def shown(cluster: BundleCluster, caplog: pytest.LogCaptureFixture) -> str:
    """All that was ever written but for Secrets and pods, whose contents are the test's, and logs.

    Events are written, and logged too.
    """
    apart = "/secrets/", "/pods/"
    written = [body for _, _, path, body in cluster._log if not any(map(path.count, apart))]
    return json.dumps(written) + caplog.text


def stops(cluster: BundleCluster, kind: str, said: str, *, message: str) -> None:
    """Let Jobs of this kind fail with this log and this message of the container."""
    ends = cluster.ends

    def failing(job: dict[str, Any]) -> tuple[int, str] | None:
        if job["metadata"]["labels"]["operator.werf.dev/job"] != kind:
            assert ends is not None
            return ends(job)
        cluster.logs[f"{job['metadata']['name']}-pod"] = said
        return 1, message

    cluster.ends = failing


TEXTS = {
    "fail": (
        "Error: render chart: template: app/templates/a.yaml:3:4: executing "
        f'"app/templates/a.yaml" at <fail .Values.why>: error calling fail: {HIDDEN}\n'
    ),
    "required": (
        f"Error: render chart: execution error at (app/templates/a.yaml:3:4): {HIDDEN} is missing\n"
    ),
    "in several lines": (
        "Error: render chart: execution error at (app/templates/a.yaml:3:4): first\n"
        f"second {HIDDEN}\n  * third {HIDDEN}\n"
    ),
    "through include": (
        "Error: render chart: template: app/templates/a.yaml:1:3: executing "
        '"app/templates/a.yaml" at <include "b" .>: error calling include: template: '
        'app/templates/_b.tpl:2:4: executing "b" at <fromYaml .Values.x>: error calling '
        f"fromYaml: {HIDDEN}\n"
    ),
    "a value that isn't YAML": (
        f"Error: YAML parse error on app/templates/a.yaml: cannot unmarshal !!str {HIDDEN} into "
        "int\n"
    ),
    "a schema": (
        "Error: values don't meet the specifications of the schema(s) in the following chart(s):\n"
        f"app:\n- password: {HIDDEN} does not match\n"
    ),
    "a range": (
        'Error: template: app/templates/a.yaml:1:3: executing "app/templates/a.yaml" at '
        f"<.Values.x>: range can't iterate over {HIDDEN}\n"
    ),
}


WAYS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "deploy": ("deploy", {}, False),
    "deploy of a plan": ("deploy", {"approval": ALWAYS}, False),
    "deploy, its log rotated away": ("deploy", {}, True),
    "uninstall": ("uninstall", {}, False),
    "uninstall, its log rotated away": ("uninstall", {}, True),
}
"""The kind of Job that fails, the spec, and whether only its container's message says why."""


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("way", WAYS)
async def test_no_message_of_a_job_holds_a_text_of_a_template(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
    what: str,
    way: str,
) -> None:
    kind, spec, is_rotated = WAYS[way]
    text = TEXTS[what]
    stops(cluster, kind, "begins\n" + ("" if is_rotated else text), message=text)
    bundle(**spec)
    operator = await run()
    if spec:
        approve(cluster, await waits(cluster))
    if kind == "uninstall":
        await deployed(cluster)
        cluster.drop(path_of("bundles", "shop"))

    await eventually(lambda: cluster.reason() in ("DeployFailed", "UninstallFailed"))
    await idle(operator)

    assert HIDDEN not in shown(cluster, caplog)
    assert "see the pod's log" in json.dumps(cluster.status())


# --- what a registry says -------------------------------------------------------------------------

HOSTILE = {
    "colours": "\x1b[31mred\x1b[0m alert",
    "line feeds": "first\r\nsecond\n\nKind: Secret\tthird",
    "control characters": "a\x00b\x07c\x08d\x7fe\x9bf",
    "another direction": "safe\u202egnp.exe\u2066 \u200b\ufeffand\u2028more",
    "private characters": "x\ue000y\ufffe z",
}


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500])
@pytest.mark.parametrize("what", HOSTILE)
async def test_a_registrys_message_is_cleaned_before_it_is_shown(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    caplog: pytest.LogCaptureFixture,
    what: str,
    status: int,
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        errors = {"errors": [{"code": "DENIED", "message": HOSTILE[what]}]}
        return web.json_response(errors, status=status)

    registry.fault = refuse
    bundle()
    operator = await run()

    await eventually(lambda: cluster.status().get("lastError", {}).get("message"))
    await idle(operator)

    texts = strings(cluster.status())
    texts += [record.getMessage() for record in caplog.records if record.name.startswith("copyr")]
    for text in texts:
        bad = [one for one in text if unicodedata.category(one)[0] == "C"]
        assert not bad, (text, bad)
        assert not {"\u2028", "\u2029"} & set(text)


def strings(value: Any) -> list[str]:
    """All texts of a document."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(
    "body",
    [
        "<html><body><h1>Sign in</h1><script>alert(1)</script></body></html>",
        "<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
        '{"errors": "<b>bold</b>"',
    ],
    ids=["a web page", "XML", "what is cut off"],
)
@pytest.mark.parametrize("kind", ["text/html", "application/json"])
@pytest.mark.parametrize("status", [400, 403, 500])
async def test_of_an_answer_that_isnt_an_error_of_the_specification_no_markup_is_shown(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    caplog: pytest.LogCaptureFixture,
    body: str,
    status: int,
    kind: str,
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body, content_type=kind)

    registry.fault = refuse
    bundle()
    operator = await run()

    await eventually(lambda: cluster.status().get("lastError", {}).get("message"))
    await idle(operator)

    assert "<" not in "".join(strings(cluster.status()))
    assert "AccessDenied" not in shown(cluster, caplog)


async def test_a_registrys_message_holds_no_credential(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    caplog: pytest.LogCaptureFixture,
) -> None:
    login = base64.b64encode(b"alice:s3cret-of-alice").decode()
    config = json.dumps({"auths": {registry.host: {"auth": login}}})
    encoded = base64.b64encode(config.encode()).decode()
    cluster.put_object("secrets", "creds", data={".dockerconfigjson": encoded})

    async def refuse(request: web.Request) -> web.Response:
        if "Authorization" not in request.headers:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="r"'})
        sent = request.headers["Authorization"]
        text = f"s3cret-of-alice {sent} isn't known"
        errors = {"errors": [{"code": "DENIED", "message": text}]}
        return web.json_response(errors, status=403)

    registry.fault = refuse
    bundle(auth="creds")
    operator = await run()

    await eventually(lambda: cluster.status().get("lastError", {}).get("message"))
    await idle(operator)

    said = shown(cluster, caplog)
    assert "s3cret-of-alice" not in said
    assert login not in said


async def test_a_registrys_message_is_short(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    text = " word" * 400
    registry.fault = answering(403, json.dumps({"errors": [{"code": "DENIED", "message": text}]}))
    bundle()
    operator = await run()

    await eventually(lambda: cluster.status().get("lastError", {}).get("message"))
    await idle(operator)

    message = cluster.status()["lastError"]["message"]
    assert "DENIED: word word" in message
    assert len(message) < 400
