"""Which edits of values and credentials take effect at the next poll only, and why.

Computed by the operator's own code from the existing Bundles and the operator's permissions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults
from copyrator.api.counts import count
from copyrator.api.fields import InvalidSpec
from copyrator.bundles.deploy.restrictions import refusal
from copyrator.bundles.inputs.reader import references_of
from copyrator.bundles.inputs.watches import (
    Ref,
    WatchScope,
    decide,
    find_uncovered,
    scope_permissions,
)
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.objects import listed
from copyrator.cli.doctor.permissions import allowed
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import BUNDLES, CONFIGMAPS, SECRETS, Resource

_AT_ONCE: Final = 8
_REMEDY: Final = {
    CONFIGMAPS: "the chart's roles grant the permission",
    SECRETS: 'bundles.allowedSecrets: ["*"] in the chart grants the permission',
}


@dataclass(frozen=True, slots=True)
class Polled:
    """Objects that Bundles name and no watch covers; they are read at polls."""

    named: int
    """All objects that Bundles name."""
    refs: frozenset[Ref]

    def sentence(self, who: str) -> str:
        """How many are read at polls, and the remedy."""
        if not self.refs:
            watched = count(self.named, "object is", "objects are")
            return f"{watched} referenced by Bundles; edits take effect at once"
        kinds = {ref.resource for ref in self.refs}
        have = "has" if len(self.refs) == 1 else "have"
        return (
            f"{len(self.refs)} of {count(self.named, 'object')} referenced by Bundles {have} no "
            "watch, so edits take effect at the next poll: "
            f"{' and '.join(_denials(who, kinds))}"
        )


def _denials(who: str, kinds: Iterable[Resource]) -> list[str]:
    return [
        f"{who} cannot list and watch all {kind.plural} of these namespaces, only single ones by "
        f"name ({_REMEDY[kind]})"
        for kind in sorted(kinds, key=lambda kind: kind.plural)
    ]


async def polled_references(client: KubeClient, installation: Installation) -> Polled:
    """Find the objects that are read at polls only.

    Raises:
        ApiError: Bundles can't be listed, or permissions not reviewed.
    """
    settings = installation.settings
    wanted: dict[Resource, dict[str, set[str]]] = {CONFIGMAPS: {}, SECRETS: {}}
    policy = settings.allowed_service_accounts, settings.allowed_images, settings.allowed_secrets
    for body in await listed(client, BUNDLES, None):
        spec = parse_bundle(body, BundleDefaults())
        if isinstance(spec, InvalidSpec) or refusal(spec, *policy):
            continue
        for ref in references_of(spec):
            if settings.serves(ref.namespace):
                wanted[ref.resource].setdefault(ref.namespace, set()).add(ref.name)
    scopes = await _granted(client, installation, wanted)
    named = sum(len(names) for found in wanted.values() for names in found.values())
    return Polled(named, frozenset(find_uncovered(wanted, scopes)))


async def _granted(
    client: KubeClient, installation: Installation, wanted: dict[Resource, dict[str, set[str]]]
) -> set[WatchScope]:
    """What the operator may watch by its permissions."""
    gate = asyncio.Semaphore(_AT_ONCE)
    served = installation.settings.watch_namespaces

    async def is_denied(scope: WatchScope) -> bool:
        async with gate:
            for needs in scope_permissions(scope, served):
                need = (scope.resource, "", needs.permission.verb, needs.namespace or None)
                if not await allowed(client, need, installation.user):
                    return True
        return False

    refused: set[WatchScope] = set()
    good: set[WatchScope] = set()
    while True:
        scopes = decide(wanted, refused)
        unknown = [scope for scope in scopes if scope.is_wide and scope not in good]
        answers = await asyncio.gather(*map(is_denied, unknown))
        bad = {scope for scope, missing in zip(unknown, answers, strict=True) if missing}
        if not bad:
            return scopes
        refused |= bad
        good |= set(unknown) - bad
