"""Findings of `copyrator doctor` and `copyrator remote check`."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from copyrator.api.text import count
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.output import Format, Kind, dump, prose, typed
from copyrator.kube import errors
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `good` is None where it couldn't be checked, or is only information."""

    what: str
    good: bool | None
    said: str
    of_object: bool = False
    """Whether it is about rules or Bundles, and not about the installation."""


ONLY_OBJECTS: Final = 3
"""The exit code where the installation is well, but a rule or Bundle isn't."""


async def readable(what: str, checks: AsyncIterator[Check]) -> list[Check]:
    """The findings, up to the first request that the user has no permission for."""
    found: list[Check] = []
    try:
        async for check in checks:
            found.append(check)  # noqa: PERF401 - what came before an error counts
    except errors.Forbidden as error:
        found.append(Check(what, None, f"you have no permission to check it: {error.message}"))
    return found


C = TypeVar("C", bound=Check | None)


def tried(
    what: str, fault: str = "can't be checked"
) -> Callable[[Callable[..., Awaitable[C]]], Callable[..., Awaitable[C | Check]]]:
    """Decorate what makes a finding: that its requests fail is one, too."""

    def decorate(make: Callable[..., Awaitable[C]]) -> Callable[..., Awaitable[C | Check]]:
        @functools.wraps(make)
        async def found(*args: Any) -> C | Check:
            try:
                return await make(*args)
            except errors.ApiError as error:
                return Check(what, None, f"{fault}: {error.message}")

        return found

    return decorate


def print_checks(checks: Sequence[Check], shape: Format | None) -> None:
    """Print them, those about objects last; end with exit code 1 or ONLY_OBJECTS if one failed."""
    checks = sorted(checks, key=lambda check: check.of_object)
    if shape is not None:
        items = [
            {"check": c.what, "ok": c.good, "message": c.said, "ofObject": c.of_object}
            for c in checks
        ]
        dump(typed(Kind.CHECK_LIST, {"items": items}), shape)
    else:
        from rich.text import Text  # noqa: PLC0415 - not for --help

        marks = {True: ("ok   ", "green"), False: ("FAIL ", "bold red"), None: ("?    ", "yellow")}
        for number, (_, group) in enumerate(groupby(checks, key=lambda check: check.of_object)):
            if number:
                click.echo()
            prose(Text.assemble(marks[c.good], f"{c.what}: {c.said}") for c in group)
        click.echo(summary(checks))
    failed = {check.of_object for check in checks if check.good is False}
    if failed:
        raise click.exceptions.Exit(ONLY_OBJECTS if failed == {True} else 1)


def summary(checks: Sequence[Check]) -> str:
    """The last line; of a check without an answer `good` is None."""
    failing = [check.of_object for check in checks if check.good is False]
    unknown = [check.good for check in checks].count(None)
    parts = [f"{count(failing.count(False), 'check')} failed"] if False in failing else []
    if True in failing:
        parts += [] if parts else ["The installation is well"]
        parts.append(count(failing.count(True), "rule or Bundle fails", "rules or Bundles fail"))
    if unknown:
        parts += [] if parts else ["No check failed"]
        parts.append(f"{count(unknown, 'check')} marked ? had no clear result")
    return f"{'; '.join(parts) or 'All checks passed'}."


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


async def find_policy(
    client: KubeClient, installation: Installation, domain: str, consequence: str, switch: str
) -> tuple[str, str]:
    """The installation's policy of this domain, or an empty name and why there is none.

    ``switch``: the chart's value that installs it.

    Raises:
        ApiError: they can't be listed.
    """
    ending = f".{installation.namespace}.{domain}"
    try:
        found = await client.request("GET", POLICIES)
    except errors.NotFound:
        said = "not served as v1 by this API server (Kubernetes 1.30 and later)"
        return "", f"{said}: {consequence}; upgrade Kubernetes, see docs/trust.md"
    names = (name_of(one).name for one in found.get("items") or ())
    name = next((name for name in names if name.endswith(ending)), "")
    return name, f"not installed: {consequence}; the chart installs one ({switch})"
