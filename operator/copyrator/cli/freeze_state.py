"""What is frozen, read from the cluster as far as the user may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from copyrator.api.freeze import (
    CONFIG_MAP,
    Freeze,
    in_force,
    read_annotation,
    read_config_map,
    sentence,
)
from copyrator.api.names import ANN_FREEZE
from copyrator.cli.doctor_check import Check
from copyrator.cli.installation import Installation
from copyrator.cli.objects import listed
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import CONFIGMAPS, NAMESPACES

WHAT: Final = "Freeze"
_NAMED: Final = 3
"""Freezes that a line names."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """The freezes that were found, ended ones too."""

    freezes: tuple[Freeze, ...] = ()
    denied: tuple[str, ...] = ()
    """What the user may not read."""

    def sentences(self, now: datetime) -> list[str]:
        """A sentence for each freeze in force."""
        return [sentence(one) for one in in_force(self.freezes, now)]


def freeze_of(namespace: Mapping[str, Any]) -> Freeze | None:
    """The freeze of a Namespace; None where it has none."""
    metadata = namespace["metadata"]
    value = (metadata.get("annotations") or {}).get(ANN_FREEZE)
    return None if value is None else read_annotation(metadata["name"], str(value))


async def freeze_of_all(client: KubeClient, home: str) -> Freeze | None:
    """The freeze of all namespaces; None where there is none."""
    try:
        return read_config_map(await client.get(CONFIGMAPS, home, CONFIG_MAP))
    except errors.NotFound:
        return None


async def freezes_for(
    client: KubeClient, installation: Installation, bundle: Mapping[str, Any]
) -> tuple[Freeze, ...]:
    """What concerns a Bundle, as far as the user may read it."""
    own = bundle["metadata"]["namespace"]
    release = (bundle.get("spec") or {}).get("project_namespace") or own
    names = [one for one in dict.fromkeys((own, release)) if installation.settings.serves(one)]
    return (await found(client, installation, names)).freezes


async def found(client: KubeClient, installation: Installation, names: Iterable[str]) -> Frozen:
    """The freezes of all namespaces and of these."""
    freezes: list[Freeze | None] = []
    denied: list[str] = []
    home = installation.settings.namespace
    try:
        freezes.append(await freeze_of_all(client, home))
    except errors.ApiError as error:
        denied.append(error.message)
    for name in names:
        try:
            freezes.append(freeze_of(await client.get(NAMESPACES, None, name)))
        except errors.NotFound:
            continue
        except errors.ApiError as error:
            denied.append(error.message)
    return Frozen(tuple(one for one in freezes if one is not None), tuple(denied))


async def all_found(client: KubeClient, installation: Installation) -> Frozen:
    """The freezes of all namespaces that the operator serves."""
    served = installation.settings.watch_namespaces
    of_all = await found(client, installation, served)
    if served:
        return of_all
    try:
        bodies = await listed(client, NAMESPACES, None, metadata_only=True)
    except errors.ApiError as error:
        return Frozen(of_all.freezes, (*of_all.denied, error.message))
    freezes = (freeze_of(body) for body in bodies)
    return Frozen((*of_all.freezes, *(one for one in freezes if one is not None)), of_all.denied)


async def check(client: KubeClient, installation: Installation, now: datetime) -> Check:
    """The check of `doctor`: a freeze is reported without a fault, an unreadable one as a fault."""
    there = await all_found(client, installation)
    frozen = in_force(there.freezes, now)
    said = [sentence(one) for one in sorted(frozen, key=lambda one: (not one.fault, one.namespace))]
    if not said and there.denied:
        return Check(WHAT, None, f"what is frozen can't be read: {there.denied[0]}")
    if not said:
        return Check(WHAT, True, "nothing is frozen")
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    good = False if any(one.fault for one in frozen) else None
    return Check(WHAT, good, "; ".join(said[:_NAMED]) + more)
