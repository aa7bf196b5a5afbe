"""Values of flags and variables, as click's callbacks: an invalid one is a click.BadParameter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import click

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
NAMESPACE_GLOB = re.compile(r"[-a-z0-9*?]{1,63}")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")  # OCI distribution spec, "Pulling manifests"
KIND = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+(/v[a-z0-9]+)?)?")
_POD_KEY = r"(?:[a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
POD_METADATA = re.compile(rf"{_POD_KEY}(?:=[^,]*)?")
POD_LABEL = re.compile(rf"{_POD_KEY}=(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?)?")
POD_ANNOTATION = re.compile(rf"{_POD_KEY}=[^,]*")
IMAGE = re.compile(r"[a-z0-9][^\s,@]*")

Callback = Callable[[click.Context, click.Parameter, Any], Any]


def matching(pattern: re.Pattern[str], what: str) -> Callback:
    """Return a click callback that accepts only `pattern`; `what` ends "is not ..."."""

    def check(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
        if value is not None and not pattern.fullmatch(value):
            raise click.BadParameter(f"{value!r} is not {what}.")
        return value

    return check


def listed(pattern: re.Pattern[str], what: str) -> Callback:
    """Return a click callback for a comma-separated list; blanks and empty items are ignored."""
    one = matching(pattern, what)

    def split(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        items = (part.strip() for part in (value or "").split(","))
        return tuple(dict.fromkeys(one(ctx, param, item) for item in items if item))

    return split


def seconds(*, above: float = -math.inf, least: float = -math.inf) -> Callback:
    """Return a click callback for a finite number, more than `above` and at least `least`."""

    def check(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
        if not math.isfinite(value):
            raise click.BadParameter(f"{value} is not a valid number of seconds.")
        if value <= above:
            raise click.BadParameter(f"{value:g} is too small: more than {above:g} seconds.")
        if value < least:
            raise click.BadParameter(f"{value:g} is too small: at least {least:g} seconds.")
        return value

    return check


def pod_metadata(pattern: re.Pattern[str], what: str) -> Callback:
    """Return a click callback for KEY=VALUE pairs, separated by commas; "-" means none."""
    one = matching(pattern, f"KEY=VALUE of {what}")

    def split(ctx: click.Context, param: click.Parameter, value: str) -> Any:
        items = [part.strip() for part in value.split(",") if part.strip()]
        found = [one(ctx, param, item).partition("=") for item in items if items != ["-"]]
        return tuple({key: text for key, _, text in found}.items())

    return split


def secret_names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Parse names; "-" means none, because an empty variable counts as not set."""
    words = [word.strip() for word in value.split(",")]
    if "*" in words:
        return ("*",)
    if words == ["-"]:
        return ()
    names: tuple[str, ...] = listed(DNS_SUBDOMAIN, "a Secret's name")(ctx, param, value)
    return names


def networks(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse a comma-separated list of address ranges; a single address is a range of one."""
    items = (part.strip() for part in (value or "").split(","))
    found = []
    for item in items:
        try:
            found += [ip_network(item)] if item else []
        except ValueError:
            raise click.BadParameter(
                f"{item!r} is not a range of addresses, such as 10.0.0.0/8 or fd00::1."
            ) from None
    return tuple(dict.fromkeys(found))


def approvals(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[tuple[str, str], ...]:
    """Parse NAMESPACE-GLOB=MODE pairs, separated by commas."""
    items = (part.strip() for part in (value or "").split(","))
    found = []
    for item in items:
        glob, equals, mode = item.partition("=")
        if not item:
            continue
        if not equals or mode not in ("OnRisk", "Always") or not NAMESPACE_GLOB.fullmatch(glob):
            raise click.BadParameter(
                f"{item!r} is not a namespace's name or glob with OnRisk or Always, such as "
                "prod-*=Always."
            )
        found.append((glob, mode))
    return tuple(dict.fromkeys(found))


def environments(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[tuple[str, str], ...]:
    """Parse ENVIRONMENT=NAMESPACE-GLOB pairs, separated by commas."""
    found = []
    for item in filter(None, (part.strip() for part in (value or "").split(","))):
        name, _, glob = item.partition("=")
        if not DNS_LABEL.fullmatch(name) or not NAMESPACE_GLOB.fullmatch(glob):
            raise click.BadParameter(
                f"{item!r} is not an environment with a namespace's name or glob, such as "
                "staging=team-*."
            )
        found.append((name, glob))
    return tuple(dict.fromkeys(found))
