"""Parses the push notifications of registries' webhooks. No I/O.

A notification is a hint and never a source: it only causes an earlier poll of the registry that
the Bundle names, with the Bundle's own credential. So parsing is tolerant: an event that isn't a
push, or has no repository, is left out.

Sources: the distribution project's "Work with notifications" (envelope of events), Harbor's
"Configure Webhook Notifications" (default and CloudEvents payload), GitHub's webhook events
``package`` and ``registry_package``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from copyrator.api.json_text import read_json
from copyrator.oci.reference import DOCKER_HUB_HOST, DOCKER_HUB_NAMES
from copyrator.settings.limits import WEBHOOK_PUSHES


class Sender(StrEnum):
    """The sender's software; the value of a metric's label."""

    DISTRIBUTION = "distribution"
    HARBOR = "harbor"
    GITHUB = "github"
    GENERIC = "generic"


class UnreadableNotificationError(ValueError):
    """The payload has no known form; the message names the expected ones and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Push:
    """A tag that was pushed."""

    repository: str
    """Path in the registry."""
    registry: str | None = None
    """``host[:port]``; None where the sender's own name may differ from that in Bundles."""
    tag: str | None = None
    """None: any tag may be new."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One payload; without pushes it is valid, but irrelevant."""

    sender: Sender
    pushes: tuple[Push, ...] = ()


def canonical(registry: str) -> str:
    """One name for a registry that has several, in lower case."""
    name = registry.strip().lower()
    return DOCKER_HUB_HOST if name in DOCKER_HUB_NAMES else name


def parse_notification(body: bytes) -> Notification:
    """Parse the body of a webhook.

    Raises:
        UnreadableNotificationError: it isn't JSON, or has no known form.
    """
    try:
        found = read_json(body)
    except ValueError:
        raise UnreadableNotificationError("the body isn't JSON") from None
    if isinstance(found, dict):
        for sender, is_theirs, pushes in _SENDERS:
            if is_theirs(found):
                named = list(islice(pushes(found), WEBHOOK_PUSHES + 1))
                if len(named) > WEBHOOK_PUSHES:
                    raise UnreadableNotificationError(
                        f"it has more than {WEBHOOK_PUSHES} pushes; split it"
                    )
                return Notification(sender, tuple(dict.fromkeys(named)))
    raise UnreadableNotificationError(
        "a notification of distribution, Harbor or GitHub packages is expected, or "
        '{"registry": …, "repository": …, "tag": …}'
    )


def _push(repository: Any, registry: Any = None, tag: Any = None) -> Iterator[Push]:
    """Yield a Push, unless there is no repository."""
    path = _text(repository).strip("/").lower()
    if path:
        yield Push(path, canonical(_text(registry)) or None, _text(tag) or None)


def _distribution(found: Mapping[str, Any]) -> Iterator[Push]:
    """Match by the repository alone.

    ``target.url`` has the host by which a client or an internal proxy reached the registry, which
    need not be the one in any Bundle.
    """
    for event in _maps(found["events"]):
        target = _map(event.get("target"))
        if event.get("action") == "push" and _text(target.get("tag")):
            yield from _push(target.get("repository"), tag=target.get("tag"))


def _harbor(found: Mapping[str, Any]) -> Iterator[Push]:
    kind = _text(found.get("type"))
    if kind not in ("PUSH_ARTIFACT", "pushImage", "harbor.artifact.pushed"):
        return
    data = _map(found.get("event_data") or found.get("data"))
    repository = _map(data.get("repository")).get("repo_full_name")
    for resource in _maps(data.get("resources")):
        registry, _, _ = _text(resource.get("resource_url")).partition("/")
        yield from _push(repository, registry, resource.get("tag"))


def _github(found: Mapping[str, Any]) -> Iterator[Push]:
    """Container packages are on ghcr.io, whatever the rest of the payload."""
    package = _map(found.get("package") or found.get("registry_package"))
    if _text(package.get("package_type")).lower() not in ("container", "docker"):
        return
    if found.get("action") not in ("published", "updated"):
        return
    version = _map(package.get("package_version"))
    tag = _map(_map(version.get("container_metadata")).get("tag")).get("name")
    host, _, path = _text(version.get("package_url")).partition("/")
    if host.lower() == "ghcr.io" and path:
        name, _, shown = path.partition("@")[0].rpartition(":")
        yield from _push(name or path.partition("@")[0], "ghcr.io", tag or (shown if name else ""))
        return
    owner = _text(package.get("namespace")) or _text(_map(package.get("owner")).get("login"))
    name = _text(package.get("name"))
    if owner and name:
        yield from _push(f"{owner}/{name}", "ghcr.io", tag)


def _generic(found: Mapping[str, Any]) -> Iterator[Push]:
    yield from _push(found["repository"], found.get("registry"), found.get("tag"))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_SENDERS: Final[
    tuple[
        tuple[
            Sender,
            Callable[[Mapping[str, Any]], bool],
            Callable[[Mapping[str, Any]], Iterator[Push]],
        ],
        ...,
    ]
] = (
    (Sender.DISTRIBUTION, lambda found: isinstance(found.get("events"), list), _distribution),
    (
        Sender.HARBOR,
        lambda found: (
            isinstance(found.get("event_data"), dict)
            or _text(found.get("type")).startswith("harbor.")
        ),
        _harbor,
    ),
    (
        Sender.GITHUB,
        lambda found: (
            isinstance(found.get("package"), dict)
            or isinstance(found.get("registry_package"), dict)
            or ("zen" in found and "hook_id" in found)
        ),
        _github,
    ),
    (Sender.GENERIC, lambda found: isinstance(found.get("repository"), str), _generic),
)
"""Parsers in order; the first that recognizes a payload is used."""
