"""Parses the push notifications of registries' webhooks. No I/O.

A notification is a hint and never a source: it only causes an earlier poll of the registry that
the Bundle names, with the Bundle's own credential. So parsing is tolerant: an event that isn't a
push, or has no repository, is left out.

Sources: the senders' documentation, which the table in docs/webhook.md links.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from copyrator.api.clouds import ECR_HOST
from copyrator.api.schema import map_in, maps_in, read_json, text_in
from copyrator.oci.exchange import DOCKER_HUB_HOST, DOCKER_HUB_NAMES

WEBHOOK_PUSHES: Final = 1000
"""Pushes that one call may name; registries send one, or a few."""

EVENT_TYPE: Final = "Ce-Type"
"""Header with the type of a CloudEvent in binary mode, whose body is only the event's data."""

_FORM: Final = b"payload="

_DIGEST: Final = re.compile(r"sha(?:256|512)(?::|__)")
"""Start of a digest, also as Artifactory names a folder; a tag can't have a colon."""

_NEXUS_MANIFEST: Final = re.compile(r"/?v2/(.+)/manifests/([^/]+)")
_ARTIFACTORY_MANIFESTS: Final = ("manifest.json", "list.manifest.json")
_ARTIFACTORY_PUSHES: Final = (
    ("docker", "pushed"),
    ("docker", "promoted"),
    ("artifact", "deployed"),
)
_ZOT_EVENTS: Final = (
    ".image.updated",
    ".image.deleted",
    ".image.lint_failed",
    ".image.scanned",
    ".repository.created",
)


class Sender(StrEnum):
    """The sender's software; the value of a metric's label."""

    DISTRIBUTION = "distribution"
    HARBOR = "harbor"
    GITHUB = "github"
    GITEA = "gitea"
    DOCKER_HUB = "dockerhub"
    QUAY = "quay"
    ACR = "acr"
    ECR = "ecr"
    GOOGLE = "google"
    ALIBABA = "alibaba"
    ARTIFACTORY = "artifactory"
    NEXUS = "nexus"
    ZOT = "zot"
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
    """One name for a registry that has several, in lower case and without a default port."""
    name = registry.strip().lower().removesuffix(":443").removesuffix(":80")
    if found := ECR_HOST.fullmatch(name):
        return f"{found['account']}.dkr.ecr.{found['region']}.amazonaws.com"
    return DOCKER_HUB_HOST if name in DOCKER_HUB_NAMES else name


def unwrap_form(body: bytes) -> bytes:
    """The JSON in a web form, as which GitHub and Gitea may send it; else the body itself."""
    if not body.startswith(_FORM):
        return body
    value = body.removeprefix(_FORM).partition(b"&")[0]
    return unquote_to_bytes(value.replace(b"+", b" "))


def parse_notification(body: bytes, event_type: str | None = None) -> Notification:
    """Parse the body of a webhook, with the value of its header `EVENT_TYPE`.

    Raises:
        UnreadableNotificationError: it isn't JSON, or has no known form.
    """
    found = _json(unwrap_form(body))
    if event_type is not None:
        found = {"type": event_type, "data": found}
    events = found if isinstance(found, list) else [found]
    if len(events) > WEBHOOK_PUSHES:
        raise UnreadableNotificationError(f"it has more than {WEBHOOK_PUSHES} events; split it")
    read = [known for event in events if (known := _read(event)) is not None]
    if not read:
        raise UnreadableNotificationError(
            "a notification of one of the registries in docs/webhook.md is expected, or "
            '{"registry": …, "repository": …, "tag": …}'
        )
    named = list(islice((push for _, pushes in read for push in pushes), WEBHOOK_PUSHES + 1))
    if len(named) > WEBHOOK_PUSHES:
        raise UnreadableNotificationError(f"it has more than {WEBHOOK_PUSHES} pushes; split it")
    return Notification(read[0][0], tuple(dict.fromkeys(named)))


def _read(event: Any) -> tuple[Sender, Iterator[Push]] | None:
    """The sender of an event and its pushes; None: no sender's form is known."""
    if isinstance(event, dict):
        for sender, parse in _SENDERS:
            pushes = parse(event)
            if pushes is not None:
                return sender, pushes
    return None


def _json(text: bytes | str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        raise UnreadableNotificationError("the body isn't JSON") from None


def _push(repository: Any, registry: Any = None, tag: Any = None) -> Iterator[Push]:
    """Yield a Push, unless there is no repository. A digest instead of a tag is any tag."""
    path, name = _text(repository).strip("/").lower(), _text(tag)
    if path:
        yield Push(
            path,
            canonical(_text(registry)) or None,
            None if _DIGEST.match(name) else name or None,
        )


def _push_reference(reference: Any, tag: Any = None) -> Iterator[Push]:
    """Yield the Push of ``host/path[:tag][@digest]``."""
    host, _, path = _text(reference).partition("@")[0].partition("/")
    name, colon, shown = path.rpartition(":")
    return _push(name, host, tag or shown) if colon else _push(path, host, tag)


# Each function returns None for another sender's event, and no pushes for an event of another kind.


def _distribution(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Match by the repository alone.

    ``target.url`` has the host by which a client or an internal proxy reached the registry, which
    need not be the one in any Bundle. GitLab's registry sends the same.
    """
    if not isinstance(found.get("events"), list):
        return None
    pushed = (one for one in maps_in(found, "events") if one.get("action") == "push")
    targets = (map_in(one, "target") for one in pushed)
    return (
        push
        for target in targets
        if text_in(target, "tag")
        for push in _push(target.get("repository"), tag=target.get("tag"))
    )


def _harbor(found: Mapping[str, Any]) -> Iterator[Push] | None:
    kind = text_in(found, "type")
    if not (isinstance(found.get("event_data"), dict) or kind.startswith("harbor.")):
        return None
    if kind not in ("PUSH_ARTIFACT", "pushImage", "harbor.artifact.pushed"):
        return iter(())
    data = map_in(found, "event_data") or map_in(found, "data")
    repository = map_in(data, "repository").get("repo_full_name")
    return (
        push
        for one in maps_in(data, "resources")
        for push in _push(
            repository, text_in(one, "resource_url").partition("/")[0], one.get("tag")
        )
    )


def _zot(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """CloudEvents, whose types have a prefix that can be configured. They don't name the host."""
    kind, data = text_in(found, "type"), map_in(found, "data")
    if not kind.endswith(_ZOT_EVENTS) or "name" not in data:
        return None
    pushed = kind.endswith(".image.updated")
    return _push(data["name"], tag=data.get("reference")) if pushed else iter(())


def _github(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Container packages are on ghcr.io, whatever the rest of the payload."""
    package = found.get("package") or found.get("registry_package")
    if not isinstance(package, dict):
        is_other = "node_id" in map_in(found, "repository") or "zen" in found
        return iter(()) if is_other else None
    if "package_type" not in package:
        return None
    if (
        text_in(package, "package_type").lower() not in ("container", "docker")
        or found.get("action") not in ("published", "updated")
    ):  # fmt: skip
        return iter(())
    version = map_in(package, "package_version")
    tag = map_in(map_in(version, "container_metadata"), "tag").get("name")
    url = text_in(version, "package_url")
    if url.lower().startswith("ghcr.io/"):
        return _push_reference(url, tag)
    owner = text_in(package, "namespace") or text_in(map_in(package, "owner"), "login")
    name = text_in(package, "name")
    return _push(f"{owner}/{name}", "ghcr.io", tag) if owner and name else iter(())


def _gitea(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Match by the path alone: Bundles may use another name of the host than ``html_url`` has."""
    package = found.get("package")
    if not isinstance(package, dict):  # events of Git, also the test delivery
        return iter(()) if "full_name" in map_in(found, "repository") else None
    if package.get("type") != "container" or found.get("action") != "created":
        return iter(())
    owner, name = text_in(map_in(package, "owner"), "login"), text_in(package, "name")
    return _push(f"{owner}/{name}", tag=package.get("version")) if owner and name else iter(())


def _docker_hub(found: Mapping[str, Any]) -> Iterator[Push] | None:
    repository, pushed = map_in(found, "repository"), found.get("push_data")
    if not isinstance(pushed, dict) or "repo_name" not in repository:
        return None
    return _push(repository["repo_name"], DOCKER_HUB_HOST, pushed.get("tag"))


def _alibaba(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """The host has the name of the instance, which isn't in the payload."""
    repository, pushed = map_in(found, "repository"), found.get("push_data")
    if not isinstance(pushed, dict) or "repo_full_name" not in repository:
        return None
    return _push(repository["repo_full_name"], tag=pushed.get("tag"))


def _quay(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Tags are a list, in old versions the keys of an object. Other events have none."""
    if not isinstance(found.get("docker_url"), str):
        return None
    updated = found.get("updated_tags")
    tags = islice(updated, WEBHOOK_PUSHES + 1) if isinstance(updated, list | dict) else ()
    return (push for tag in tags for push in _push_reference(found["docker_url"], tag))


def _acr(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """One event in the form of distribution, without its envelope."""
    action, target = found.get("action"), map_in(found, "target")
    if not isinstance(found.get("target"), dict) and action != "ping":
        return None
    host, is_push = map_in(found, "request").get("host"), action == "push"
    return _push(target.get("repository"), host, target.get("tag")) if is_push else iter(())


def _ecr(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Events as EventBridge delivers them: pushes, replicas, and images cached from upstream."""
    detail = found.get("detail")
    if found.get("source") != "aws.ecr" or not isinstance(detail, dict):
        return None
    is_cached = detail.get("sync-status") == "SUCCESS"
    is_pushed = detail.get("action-type") in ("PUSH", "REPLICATE")
    account, region = text_in(found, "account"), text_in(found, "region")
    host = f"{account}.dkr.ecr.{region}.amazonaws.com"
    is_new = is_cached or (is_pushed and detail.get("result") == "SUCCESS")
    if not is_new or not ECR_HOST.fullmatch(host):
        return iter(())
    return _push(detail.get("repository-name"), host, detail.get("image-tag"))


def _google(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Artifact Registry's messages as Pub/Sub pushes them, wrapped or not."""
    message = found.get("message")
    if isinstance(message, dict) and "subscription" in found:
        try:
            event = _json(b64decode(text_in(message, "data") or "e30=", validate=True))
        except ValueError:
            raise UnreadableNotificationError("message.data isn't JSON in base64") from None
    elif found.get("action") in ("INSERT", "DELETE"):
        event = found
    else:
        return None
    inserted = isinstance(event, dict) and event.get("action") == "INSERT"
    return _push_reference(event.get("tag") or event.get("digest")) if inserted else iter(())


def _artifactory(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Match with and without the repository's key, which is part of the path or of the host.

    The host isn't in the payload (``jpd_origin`` is that of the platform).
    """
    domain, kind, data = found.get("domain"), found.get("event_type"), found.get("data")
    if not (isinstance(domain, str) and isinstance(kind, str) and isinstance(data, dict)):
        return None
    image, tag = text_in(data, "image_name"), data.get("tag")
    folder, _, file = text_in(data, "path").rpartition("/")
    if file in _ARTIFACTORY_MANIFESTS:
        image, _, tag = folder.strip("/").rpartition("/")
    if not image or (domain, kind) not in _ARTIFACTORY_PUSHES:
        return iter(())
    paths = (f"{text_in(data, 'repo_key')}/{image}", image)
    return (push for path in paths for push in _push(path, tag=tag))


def _nexus(found: Mapping[str, Any]) -> Iterator[Push] | None:
    """Match with and without the repository's name, which may be part of the path.

    A tag that is pushed again may be an updated asset, without an event of the component.
    """
    if "nodeId" not in found:
        return None
    component, asset = map_in(found, "component"), map_in(found, "asset")
    manifest = _NEXUS_MANIFEST.fullmatch(text_in(asset, "name"))
    image, tag = (
        manifest.groups() if manifest else (component.get("name"), component.get("version"))
    )
    is_docker = (component or asset).get("format") == "docker"
    if not (is_docker and _text(image) and found.get("action") in ("CREATED", "UPDATED")):
        return iter(())
    paths = (f"{text_in(found, 'repositoryName')}/{image}", image)
    return (push for path in paths for push in _push(path, tag=tag))


def _generic(found: Mapping[str, Any]) -> Iterator[Push] | None:
    if isinstance(found.get("object_kind") or found.get("event_name"), str):
        raise UnreadableNotificationError(
            "GitLab's webhooks of projects and groups don't tell of its container registry: "
            "use the registry's own notifications, or a job that calls this webhook"
        )
    if "TopicArn" in found:
        raise UnreadableNotificationError(
            "subscriptions of SNS aren't supported: use an API destination of EventBridge"
        )
    if not isinstance(found.get("repository"), str):
        return None
    return _push(found["repository"], found.get("registry"), found.get("tag"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_SENDERS: Final[tuple[tuple[Sender, Callable[[Mapping[str, Any]], Iterator[Push] | None]], ...]] = (
    (Sender.DISTRIBUTION, _distribution),
    (Sender.HARBOR, _harbor),
    (Sender.ZOT, _zot),
    (Sender.ECR, _ecr),
    (Sender.GOOGLE, _google),
    (Sender.NEXUS, _nexus),
    (Sender.ARTIFACTORY, _artifactory),
    (Sender.ACR, _acr),
    (Sender.DOCKER_HUB, _docker_hub),
    (Sender.ALIBABA, _alibaba),
    (Sender.QUAY, _quay),
    (Sender.GITHUB, _github),
    (Sender.GITEA, _gitea),
    (Sender.GENERIC, _generic),
)
"""Parsers in order; the first that recognizes a payload is used."""
