"""What features need to be read beside Bundles, as far as the user may read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from copyrator.bundles.words import Beside, load_words
from copyrator.cli.core.cluster import ahead, all_of
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.objects import Body, listed
from copyrator.kube import errors
from copyrator.kube.resources import CONFIGMAPS, NAMESPACES

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


@dataclass(frozen=True, slots=True)
class FoundBeside:
    """The features' values that were found, also those that don't hold any more."""

    values: tuple[object, ...] = ()
    unread: tuple[str, ...] = ()
    """What the user may not read: ``ConfigMap copyrator/copyrator-freeze``."""


NOTHING_BESIDE: Final = FoundBeside()


def wanted() -> tuple[Beside, ...]:
    """What all features need."""
    return tuple(one.beside for one in load_words() if one.beside is not None)


def concerning(values: Sequence[object], now: datetime) -> Callable[[Body], tuple[object, ...]]:
    """Which of the values concern a Bundle now."""
    finders = [one.find(values, now) for one in wanted()]
    return lambda body: tuple(value for find in finders for value in find(body))


def beside(body: Body, values: Sequence[object], now: datetime) -> tuple[object, ...]:
    """Those that concern one Bundle."""
    return concerning(values, now)(body)


def remarks(values: Sequence[object], unread: Sequence[str]) -> Iterator[str]:
    """What is said of them below a list of the Bundles that they concern."""
    for one in wanted():
        yield from one.remarks(values, unread)


def values_of(namespace: Body) -> tuple[object, ...]:
    """The values of a Namespace."""
    found = (one.of_namespace(namespace) for one in wanted())
    return tuple(one for one in found if one is not None)


async def read_for(
    client: KubeClient, installation: Installation, bundle: Mapping[str, Any]
) -> FoundBeside:
    """What concerns a Bundle now."""
    own = bundle["metadata"]["namespace"]
    release = (bundle.get("spec") or {}).get("project_namespace") or own
    names = [one for one in dict.fromkeys((own, release)) if installation.settings.serves(one)]
    found = await read_beside(client, installation, names)
    return FoundBeside(beside(bundle, found.values, datetime.now(UTC)), found.unread)


async def read_beside(
    client: KubeClient, installation: Installation, names: Iterable[str]
) -> FoundBeside:
    """What these namespaces, and the operator's ConfigMaps, have of what is wanted."""
    of = wanted()
    parts = await all_of(
        (
            *(_of_config_map(client, installation, one) for one in of),
            *(_of_namespace(client, name) for name in (names if of else ())),
        )
    )
    return FoundBeside(
        tuple(value for part in parts for value in part.values),
        tuple(text for part in parts for text in part.unread),
    )


async def read_all_beside(client: KubeClient, installation: Installation) -> FoundBeside:
    """The same of all namespaces that the operator serves."""
    if (served := installation.settings.watch_namespaces) or not wanted():
        return await read_beside(client, installation, served)
    async with ahead(listed(client, NAMESPACES, None, metadata_only=True)) as namespaces:
        found = await read_beside(client, installation, ())
        try:
            bodies = await namespaces
        except errors.ApiError as error:
            unread = _unread("the list of Namespaces", error)
            return FoundBeside(found.values, (*found.unread, unread))
    values = (value for body in bodies for value in values_of(body))
    return FoundBeside((*found.values, *values), found.unread)


async def _of_config_map(client: KubeClient, installation: Installation, of: Beside) -> FoundBeside:
    home = installation.settings.namespace
    try:
        found = await client.get(CONFIGMAPS, home, of.config_map)
    except errors.NotFound:
        lost = f"ConfigMap {of.config_map} (the operator wasn't found)"
        return FoundBeside(unread=() if installation.found else (lost,))
    except errors.ApiError as error:
        return FoundBeside(unread=(_unread(f"ConfigMap {home}/{of.config_map}", error),))
    return FoundBeside((of.of_config_map(found),))


async def _of_namespace(client: KubeClient, name: str) -> FoundBeside:
    try:
        return FoundBeside(values_of(await client.get(NAMESPACES, None, name)))
    except errors.NotFound:
        return FoundBeside()
    except errors.ApiError as error:
        return FoundBeside(unread=(_unread(f"Namespace {name}", error),))


def _unread(what: str, error: errors.ApiError) -> str:
    return what if isinstance(error, errors.Forbidden) else f"{what} ({error.message})"
