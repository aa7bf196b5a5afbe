"""`copyrator freeze` and `thaw`: stop deploys in a namespace, or in all, and start them again.

What is frozen is read as far as the user may.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.bundle_status import Outcome
from copyrator.api.names import ANN_FREEZE
from copyrator.api.text import count, first_of, parse_duration, parse_time
from copyrator.bundles.features.freeze.fields import (
    CONFIG_MAP,
    MAX_REASON,
    Freeze,
    annotation_of,
    data_of,
    in_force,
    read_config_map,
    sentence,
)
from copyrator.bundles.features.freeze.words import freeze_of, freezes_in, gap
from copyrator.bundles.fields import parse_status
from copyrator.cli.core.beside import read_all_beside
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    operator_namespace_option,
    username,
)
from copyrator.cli.core.objects import WAYS_TO_STOP, Body, listed
from copyrator.cli.core.output import Format, object_option, prose, show
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, CONFIGMAPS, NAMESPACES

if TYPE_CHECKING:
    from copyrator.cli.doctor.check import Check
    from copyrator.kube.client.client import KubeClient

WHAT: Final = "Freeze"
_NAMED: Final = 3
"""Freezes that a line names."""


async def check(client: KubeClient, installation: Installation, now: datetime) -> Check:
    """The check of `doctor`: a freeze is reported without a fault, an unreadable one as a fault."""
    from copyrator.cli.doctor.check import Check  # noqa: PLC0415 - for doctor alone

    there = await read_all_beside(client, installation)
    frozen = in_force(freezes_in(there.values), now)
    said = [sentence(one) for one in sorted(frozen, key=lambda one: (not one.fault, one.namespace))]
    if not said and there.unread:
        return Check(WHAT, None, gap(there.unread))
    if not said:
        return Check(WHAT, True, "nothing is frozen")
    good = False if any(one.fault for one in frozen) else None
    return Check(WHAT, good, first_of(said, _NAMED))


FIELD_MANAGER: Final = "copyrator-freeze"

_all = click.option(
    "--all", "every", is_flag=True, help="All namespaces, in place of the one of --namespace."
)


class _Until(click.ParamType[datetime]):
    """A duration from now, or a time."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The moment, which has to be in the future."""
        if isinstance(value, datetime):
            return value
        now, seconds = datetime.now(UTC), parse_duration(str(value))
        moment = parse_time(value)
        if seconds is not None:
            moment = now + timedelta(seconds=seconds)
        elif moment is None or datetime.fromisoformat(str(value)).tzinfo is None:
            self.fail(
                f"{value!r} is neither a duration, such as 30m or 2h, nor an RFC 3339 time with "
                "its zone, such as 2026-11-30T18:00:00Z",
                param,
                ctx,
            )
        if moment <= now:
            self.fail(f"{value!r} isn't in the future", param, ctx)
        return moment


@click.command(epilog=WAYS_TO_STOP)
@cluster_options()
@_all
@click.option(
    "--until",
    metavar="TIME",
    type=_Until(),
    help="When it ends by itself: 2h, or 2026-11-30T18:00:00Z.",
)
@click.option("--reason", metavar="TEXT", required=True, help="Reason; shown where a deploy waits.")
@operator_namespace_option
@object_option
async def freeze(
    *,
    target: Target,
    every: bool,
    until: datetime | None,
    reason: str,
    home: str | None,
    shape: Format | None,
) -> None:
    """Stop deploys in a namespace, or in all: none begins until it is thawed.

    Running deploys continue, as do uninstalls and copies. The namespace of a Bundle and that of its
    release both count. Repeat it to change the reason or the end.
    """
    reason = " ".join(reason.split())
    if not reason:
        raise click.UsageError("--reason is empty; it is shown as the reason why deploys wait")
    if len(reason) > MAX_REASON:
        raise click.UsageError(f"--reason is longer than {MAX_REASON} characters")
    async with target.connect() as client:
        installation, namespace = await _scope(client, target, home, every=every)
        now = datetime.now(UTC).replace(microsecond=0)
        freeze = Freeze(namespace=namespace, reason=reason, until=until, since=now)
        with suppress(errors.ApiError):
            freeze = replace(freeze, who=await username(client))
        if namespace:
            body = await _annotate(client, namespace, annotation_of(freeze))
        else:
            body = await _write_config_map(client, installation, data_of(freeze))
        lines = [_capital(f"{sentence(freeze)}.")]
        if running := await _deploying(client, installation, namespace):
            lines.append(
                f"{count(len(running), 'deploy that has', 'deploys that have')} begun may "
                f"continue: {first_of(running, _NAMED, ', ')}."
            )
        where = ("-n", namespace) if namespace else ("--all",)
        lines.append(f"Deploys begin again after: {hint('thaw', *where)}")
    _print(body, lines, shape)


@click.command()
@cluster_options()
@_all
@operator_namespace_option
@object_option
async def thaw(*, target: Target, every: bool, home: str | None, shape: Format | None) -> None:
    """End a freeze of a namespace, or that of all: deploys that wait begin at once.

    --all ends the freeze of all namespaces; one that was frozen by its name stays so.
    """
    async with target.connect() as client:
        installation, namespace = await _scope(client, target, home, every=every)
        where = Freeze(namespace=namespace).where
        if namespace:
            try:
                body = await client.get(NAMESPACES, None, namespace)
            except errors.NotFound:
                raise Fault(f"there is no namespace {namespace}") from None
            before = freeze_of(body)
            if before is not None:
                body = await _annotate(client, namespace, None)
        else:
            body, before, home = {}, None, installation.settings.namespace
            with suppress(errors.NotFound):
                body = await client.get(CONFIGMAPS, home, CONFIG_MAP)
                before = read_config_map(body)
                await client.delete(CONFIGMAPS, home, CONFIG_MAP)
        if before is None:
            said = f"{where} isn't frozen" if namespace else f"there is no freeze of {where}"
        else:
            said = f"{where} {'is' if namespace else 'are'} thawed"
        others = await _others(client, installation, namespace)
    _print(body, [_capital(f"{said}."), *others], shape)


def _print(body: Body, lines: list[str], shape: Format | None) -> None:
    if shape is None:
        prose(lines)
    else:
        show(body, shape)


async def _others(client: KubeClient, installation: Installation, namespace: str) -> list[str]:
    """The freezes that stay in force, as far as the user may read them."""
    found: list[Freeze] = []
    if namespace:
        with suppress(errors.ApiError):
            home = installation.settings.namespace
            found = [read_config_map(await client.get(CONFIGMAPS, home, CONFIG_MAP))]
    else:
        there = await read_all_beside(client, installation)
        found = sorted(freezes_in(there.values), key=lambda one: one.namespace)
    left = in_force(found, datetime.now(UTC))
    lines = [f"Still: {sentence(one)}." for one in left[:_NAMED]]
    if len(left) > _NAMED:
        lines.append(f"Still: {count(len(left) - _NAMED, 'more namespace is', 'more are')} frozen.")
    return lines


async def _scope(
    client: KubeClient, target: Target, home: str | None, *, every: bool
) -> tuple[Installation, str]:
    """What is frozen or thawed: the namespace, of which an empty one is all.

    Raises:
        Fault: the operator can't be found, or doesn't serve the namespace.
    """
    if every and target.namespace_option:
        raise click.UsageError("--all and --namespace exclude each other")
    installation = await find_installation(client, home)
    if every:
        if home is None and not installation.found:
            raise Fault(
                "the operator wasn't found, and all namespaces are frozen by a ConfigMap in its "
                "namespace; set --operator-namespace"
            )
        return installation, ""
    served = installation.settings.watch_namespaces
    if installation.is_read and not installation.settings.serves(target.namespace):
        raise Fault(
            f"the operator serves only the namespaces {', '.join(served)}, and doesn't read "
            f"{target.namespace}; freeze the namespace of the Bundle, or all: "
            f"{hint('freeze', '--all')} --reason TEXT"
        )
    return installation, target.namespace


async def _annotate(client: KubeClient, name: str, value: str | None) -> dict[str, Any]:
    patch = {"metadata": {"annotations": {ANN_FREEZE: value}}}
    try:
        return await client.patch(NAMESPACES, None, name, patch, field_manager=FIELD_MANAGER)
    except errors.NotFound:
        raise Fault(f"there is no namespace {name}") from None


async def _write_config_map(
    client: KubeClient, installation: Installation, data: dict[str, str]
) -> dict[str, Any]:
    """Create it, or replace all of its data, so that nothing unreadable is left."""
    home = installation.settings.namespace
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": home},
        "data": data,
    }
    try:
        return await client.create(CONFIGMAPS, home, body)
    except errors.AlreadyExists:
        from copyrator.kube.client.client import PatchType  # noqa: PLC0415 - not for --help

        patch = [
            {"op": "add", "path": "/data", "value": data},
            {"op": "add", "path": "/binaryData", "value": {}},
        ]
        return await client.patch(
            CONFIGMAPS,
            home,
            CONFIG_MAP,
            patch,
            kind=PatchType.JSON,
            field_manager=FIELD_MANAGER,
        )


async def _deploying(client: KubeClient, installation: Installation, namespace: str) -> list[str]:
    """The Bundles concerned that are being deployed, as far as the user may list them."""
    bodies: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in (*installation.settings.scopes, *([namespace] if namespace else [])):
        with suppress(errors.ApiError):
            for body in await listed(client, BUNDLES, one):
                metadata = body["metadata"]
                bodies[metadata["namespace"], metadata["name"]] = body
    return [
        f"{there}/{name}"
        for (there, name), body in sorted(bodies.items())
        if parse_status(body).attempted.outcome == Outcome.RUNNING
        and namespace in ("", there, body["spec"].get("project_namespace"))
    ]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
