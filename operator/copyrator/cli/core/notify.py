"""`copyrator notify test`, and doctor's check of notifications.

The operator sends the test: so it goes the way of all messages, and the user needn't read Secrets.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.names import ANN_NOTIFY_TEST
from copyrator.api.text import count, first_of, format_micro_time
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    own_namespace_option,
)
from copyrator.cli.core.output import prose
from copyrator.cli.core.waiting import LOOK, timeout_option
from copyrator.cli.doctor.check import Check, tried
from copyrator.kube import errors
from copyrator.kube.resources import CONFIGMAPS, SECRETS

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.notify.config import Config, Entry
    from copyrator.notify.marks import EntryMarks

WHAT: Final = "Notifications"
FIELD_MANAGER: Final = "copyrator-notify"
_NAMED: Final = 3
"""Faults that a line names."""


@click.group()
def notify() -> None:
    """Test the notifications that the ConfigMap copyrator-notifications asks for."""


@notify.command("test")
@click.argument("name", metavar="ENTRY")
@cluster_options(namespace=False)
@own_namespace_option
@timeout_option(60.0, "How long to wait for the operator.")
async def test_entry(target: Target, name: str, home: str | None, timeout: float) -> None:  # noqa: ASYNC109 - the option
    """Have the operator send a test message to an entry, and wait for the result.

    Requires the permission to patch the ConfigMap copyrator-notifications and to read
    copyrator-notification-marks, in the operator's namespace.
    """
    from copyrator.notify.config import CONFIG_MAP  # noqa: PLC0415 - not for --help

    async with target.connect() as client:
        installation = await find_installation(client, home)
        namespace = installation.settings.namespace
        config = await _config(client, namespace)
        if config is None:
            raise Fault(
                f"there is no ConfigMap {namespace}/{CONFIG_MAP}; set the chart's value "
                "notifications.entries, or name the operator's namespace by --operator-namespace"
            )
        if config.entry(name) is None:
            known = ", ".join(entry.name for entry in config.entries) or "none"
            faults = f"; it has faults: {first_of(config.faults, _NAMED)}" if config.faults else ""
            raise Fault(f"{CONFIG_MAP} has no valid entry {name}; valid ones: {known}{faults}")
        request = f"{name} {format_micro_time(datetime.now(UTC))}"
        patch = {"metadata": {"annotations": {ANN_NOTIFY_TEST: request}}}
        await client.patch(CONFIGMAPS, namespace, CONFIG_MAP, patch, field_manager=FIELD_MANAGER)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not (result := await _result(client, namespace, name, request)):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK)
                if result == "sent":
                    prose([f"A test message was sent to {name}."])
                    return
                raise Fault(f"the test message to {name} failed: {result}")
    raise Fault(
        f"the operator hasn't sent the test message within {timeout:g} s; check that it is "
        f"running: {hint('doctor')}"
    )


async def _config(client: KubeClient, namespace: str) -> Config | None:
    from copyrator.notify.config import CONFIG_MAP, read_config  # noqa: PLC0415 - not for --help

    try:
        body = await client.get(CONFIGMAPS, namespace, CONFIG_MAP)
    except errors.NotFound:
        return None
    return read_config(body.get("data") or {})


async def _marks(client: KubeClient, namespace: str) -> dict[str, EntryMarks]:
    from copyrator.notify.marks import CONFIG_MAP, ToldMarks  # noqa: PLC0415 - not for --help

    try:
        body = await client.get(CONFIGMAPS, namespace, CONFIG_MAP)
        return ToldMarks.read(body.get("data")).entries
    except (errors.NotFound, ValueError):
        return {}


async def _result(client: KubeClient, namespace: str, name: str, request: str) -> str:
    """The result of a test; empty until there is one."""
    found = (await _marks(client, namespace)).get(name)
    return found.test_result if found is not None and found.tested == request else ""


@tried(WHAT, "can't be read")
async def check(client: KubeClient, installation: Installation) -> Check:
    """Whether each entry is valid, its Secrets are there, and its last message was sent."""
    namespace = installation.settings.namespace
    config = await _config(client, namespace)
    if config is None:
        return Check(WHAT, True, "none are asked for")
    marks = await _marks(client, namespace)
    faults, unknown = list(config.faults), list[str]()
    for entry in config.entries:
        fault, is_known = await _fault(client, namespace, entry)
        if not is_known:
            unknown.append(fault)
        elif fault:
            faults.append(f"{entry.name}: {fault}")
        elif (last := marks.get(entry.name)) and last.result not in ("", "sent"):
            faults.append(
                f"{entry.name}: the last message failed at {last.result_at}: {last.result}"
            )
    if faults:
        return Check(WHAT, False, first_of(faults, _NAMED))
    said = count(len(config.entries), "entry", "entries")
    if unknown:
        return Check(WHAT, None, f"{said}; {first_of(unknown, _NAMED)}")
    return Check(WHAT, True, f"{said}, all valid")


async def _fault(client: KubeClient, namespace: str, entry: Entry) -> tuple[str, bool]:
    """What is wrong with an entry's Secrets, and whether that is known."""
    from copyrator.notify.sending import check_url  # noqa: PLC0415 - not for --help

    refs = [entry.url_from, *([entry.sign_with] if entry.sign_with else [])]
    for ref in refs:
        where = f"Secret {namespace}/{ref.secret_name}"
        try:
            body: dict[str, Any] = await client.get(SECRETS, namespace, ref.secret_name)
        except errors.NotFound:
            return f"{where} doesn't exist; create it", True
        except errors.ApiError as error:
            return f"{where} can't be read: {error.reason}", False
        value = _decoded((body.get("data") or {}).get(ref.key))
        if not value:
            return f"{where} has no text in the key {ref.key}; add it", True
        if ref is entry.url_from and (fault := check_url(value.strip())):
            return f"the URL in {where} {fault}", True
    return "", True


def _decoded(value: object) -> str:
    import base64  # noqa: PLC0415 - not for --help

    try:
        return base64.b64decode(str(value or ""), validate=True).decode()
    except ValueError:
        return ""
