"""Objects in the form that kopf gets: the identifying metadata, and the whole object as one text.

kopf decodes a page of a list as a whole, and each event with Python's own parser. One object of
1.4 MB can hold 700,000 lists: that takes it a quarter of a second, and a text of that size 5 ms.
The handlers decode the text, object by object and within the limits of `depth.read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from copyrator.api.keys import ObjectName
from copyrator.kube.client.answers import MOST, flattened, read
from copyrator.kube.client.pages import BareEvent, Page
from copyrator.kube.errors import BrokenAnswer
from copyrator.kube.resources import Resource

TEXT: Final = "text"
"""The field that holds the whole object, as JSON."""


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: _Metadata
    api_version: str = ""
    kind: str = ""
    text: str = ""


_head_decoder = msgspec.json.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class KopfPage:
    """A page of a list in the form that kopf gets.

    Attributes:
        raw: the list; each of its items is a head with a text.
        names: of its objects.
        last: whether it is the list's last page.
    """

    raw: bytes
    names: set[ObjectName]
    last: bool


def wrapped_page(page: Page, res: Resource) -> KopfPage:
    """Convert a page of the API server's to kopf's form.

    Raises:
        BrokenAnswer: an item is not an object.
    """
    heads = [_head(raw) for raw in page.items.raw()]
    body = {
        "kind": f"{res.kind}List",
        "apiVersion": res.api_version,
        "metadata": {"resourceVersion": page.resource_version, "continue": page.continue_token},
        "items": heads,
    }
    names = {ObjectName(head.metadata.namespace, head.metadata.name) for head in heads}
    return KopfPage(msgspec.json.encode(body), names, last=not page.continue_token)


def wrapped_event(event: BareEvent) -> tuple[bytes, str]:
    """Convert an event of the API server's to kopf's form; also return its resourceVersion.

    Raises:
        BrokenAnswer: it holds no object.
    """
    head = _head(event.raw)
    return msgspec.json.encode({"type": event.type, "object": head}), head.metadata.resource_version


def whole(body: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the object from its text; return a body without a text as it is."""
    text = body.get(TEXT)
    decoded: dict[str, Any] = read(text.encode()) if isinstance(text, str) else dict(body)
    return decoded


def _head(raw: bytes) -> _Head:
    try:
        try:
            head = _head_decoder.decode(raw)
        except RecursionError:  # still too deep for one object, so that `read` marks it
            raw = flattened(raw, 2 * MOST)
            head = _head_decoder.decode(raw)
        head.text = raw.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenAnswer("the API server sent something that isn't an object") from error
    return head
