"""Removes the values of Secrets from a Job's texts, or withholds the texts.

werf prints the values on which a chart fails, and charts may print more. People without access to a
Bundle's Secrets may read its status, so the Secrets' values are searched for in every text that is
copied from a pod.

The texts are short and the Secrets may be large, so Secrets are read one at a time, and each value
is compared with the texts and then dropped: memory is bounded by one Secret, time grows with its
length. Small ones are processed here, larger ones in a child process: neither can block the event
loop or fill the operator's memory. After a failure the texts are withheld; the outcome is recorded
anyway.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import yaml

from copyrator.api.kubeconfig import KUBECONFIG_BYTES, InvalidKubeconfigError, parse_kubeconfig
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import SECRETS
from copyrator.settings import limits
from copyrator.settings.limits import BUNDLE_VALUES_BYTES
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

BUNDLE_REDACTIONS: Final = 2
"""Namespaces whose Bundles' Secrets are held at the same time to redact a log, one of each. Large
ones wait for the child process, so these have separate slots."""

BUNDLE_SECRETS: Final = 80
"""Secrets of a Job that are redacted from its log: 64 of ``valuesFrom``, the registry's and its
CA's, and some that an administrator's webhook adds."""

BUNDLE_REDACTION_BYTES: Final = BUNDLE_VALUES_BYTES + 2 * 1024 * 1024
"""Bytes of those Secrets together. Beyond it the whole text of the log is withheld."""

HIDDEN: Final = "<redacted>"

SHORTEST: Final = 4
"""Characters; shorter values would match parts of ordinary words."""
SHORTEST_NUMBER: Final = 6
"""The same for what isn't text: ports and counts are frequent."""
SHORTEST_LINE: Final = 8
"""The same for a single line of a longer text, such as a key in PEM."""
SHORTEST_PART: Final = 12
"""The same for the part of a value at which a text was cut off."""

_REPEATS: Final = 64
"""Occurrences of such a part that are compared in one value, so that time is bounded."""

_TEXT: Final = "tag:yaml.org,2002:str"
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LONGEST_WORD: Final = 64
"""Characters; null, booleans and dates are shorter, so the type of a longer one isn't checked."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final = yaml.resolver.Resolver()


def find_quotes(contents: Iterable[bytes], texts: Sequence[str]) -> set[str]:
    """The values of some Secrets that occur in the texts, in the forms in which they occur.

    Args:
        contents: the Secrets' values; one that is YAML or JSON is parsed.
        texts: where to search. Each may have been cut off inside a value at either end.
    """
    quotes = _Quotes(texts)
    for content in contents:
        for value in _values(content):
            quotes.look_for(value)
    return quotes.found


def hide_quotes(text: str, quotes: Iterable[str]) -> str:
    """The text with the quotes replaced by HIDDEN, the longest first."""
    for quote_ in sorted(quotes, key=lambda one: (-len(one), one)):
        text = text.replace(quote_, HIDDEN)
    return text


class _Quotes:
    """The texts, indexed for millions of look-ups of values."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.found: set[str] = set()
        self._texts = texts
        self._starts = {
            text[at : at + SHORTEST] for text in texts for at in range(len(text) - SHORTEST + 1)
        }
        """The first characters from each position: most values are excluded by these."""

    def look_for(self, value: str) -> None:
        """Add the value in each form that occurs."""
        head = value[:SHORTEST]
        self._look(head, value)
        raw = head.encode("utf-8", "surrogatepass")
        self._look(base64.b64encode(raw[:3]).decode(), value, _base64)
        if not (value.isascii() and value.isalnum()):
            self._look(quote(raw, safe=""), value, _percent_encode)
            if "/" in value:  # as in a path
                self._look(quote(raw), value, _percent_encode_path)
            self._look(_escape(head), value, _escape)

    def _look(self, start: str, value: str, form_of: Callable[[str], str] | None = None) -> None:
        may_be_cut = len(value) > SHORTEST_PART
        if start[:SHORTEST] not in self._starts and not may_be_cut:
            return
        form = form_of(value) if form_of else value
        for text in self._texts:
            if form in text:
                self.found.add(form)
            elif may_be_cut:
                self._match_ends(form, text)

    def _match_ends(self, form: str, text: str) -> None:
        """Add the part of a value that a text begins or ends with."""
        head, tail = text[:SHORTEST_PART], text[-SHORTEST_PART:]
        if len(text) < SHORTEST_PART:
            return
        if text in form:
            self.found.add(text)
        for at in _places(form, head, max(1, len(form) - len(text))):
            if text.startswith(form[at:]):
                self.found.add(form[at:])
                break
        for at in _places(form, tail, 0):
            end = at + SHORTEST_PART
            if text.endswith(form[:end]):
                self.found.add(form[:end])


def _places(form: str, part: str, start: int) -> Iterator[int]:
    """Where a part is in a value, the first ones: a value may repeat itself."""
    at = form.find(part, start)
    for _ in range(_REPEATS):
        if at < 0:
            return
        yield at
        at = form.find(part, at + 1)


def _values(content: bytes) -> Iterator[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        yield base64.b64encode(content).decode()
        return
    whole = text.strip()
    if len(whole) >= SHORTEST:
        yield whole
    for value in _scalars(text):
        yield value
        lines = value.splitlines()
        if len(lines) > 1:
            yield from (line.strip() for line in lines if len(line.strip()) >= SHORTEST_LINE)


def _scalars(text: str) -> Iterator[str]:
    """The texts and long numbers of a YAML document; keys aren't secret. Aliases cost nothing.

    It reads events: no tree is built, and values before an error are found as well.
    """
    # For each open collection: whether a key is next; None in a list.
    is_key: list[bool | None] = []
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                is_key.append(True if isinstance(event, yaml.MappingStartEvent) else None)
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                is_key.pop()
            elif not isinstance(event, (yaml.ScalarEvent, yaml.AliasEvent)):
                continue
            at_key = bool(is_key and is_key[-1])
            if is_key and is_key[-1] is not None:
                is_key[-1] = not at_key
            if isinstance(event, yaml.ScalarEvent) and not at_key and _is_telling(event):
                yield event.value.strip()
    except (yaml.YAMLError, RecursionError, ValueError):
        return


def _is_telling(event: yaml.ScalarEvent) -> bool:
    length = len(event.value.strip())
    if length < SHORTEST or length > _LONGEST_WORD:
        return length >= SHORTEST
    tag = event.tag
    if tag is None or tag == "!":
        kind = yaml.ScalarNode
        tag = _RESOLVER.resolve(kind, event.value, event.implicit)  # type: ignore[no-untyped-call]
    if tag in _NUMBERS:
        return length >= SHORTEST_NUMBER
    return bool(tag == _TEXT)


def _base64(value: str) -> str:
    return base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()


def _percent_encode(value: str) -> str:
    return quote(value.encode("utf-8", "surrogatepass"), safe="")


def _percent_encode_path(value: str) -> str:
    return quote(value.encode("utf-8", "surrogatepass"))


def _escape(value: str) -> str:
    return value.encode("unicode_escape").decode().replace('"', '\\"')


class WithheldError(Exception):
    """The texts can't be shown; the message has the reason and quotes nothing."""

    def in_place_of_log(self, namespace: str, job: str) -> str:
        """The text in place of a Job's log: the reason, and the command to read the log."""
        return f"<withheld: {self}; to read the pod's log: kubectl -n {namespace} logs job/{job}>"


class Redactor:
    """Redacts the texts of all Bundles' Jobs.

    Args:
        client: reads the Secrets.
        isolated: the child process.
    """

    def __init__(self, client: KubeClient, isolated: Isolated | None = None) -> None:
        self._client = client
        self._slots = FairLimit(each=1, together=BUNDLE_REDACTIONS)
        self._isolated = isolated or Isolated()

    async def close(self) -> None:
        """End the child process."""
        await self._isolated.close()

    async def redacted(
        self,
        namespace: str,
        secrets: Sequence[str],
        texts: Sequence[str],
        written: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
    ) -> list[str]:
        """The texts without the values of these Secrets.

        Args:
            namespace: theirs.
            secrets: their names.
            texts: where to search.
            written: contents that some of them had, by name: they are searched for, too, and are
                enough where the Secret can't be read.

        Raises:
            WithheldError: it can't be determined what to remove.
        """
        if len(secrets) > BUNDLE_SECRETS:
            raise WithheldError(f"its pod names more than {BUNDLE_SECRETS} Secrets")
        quotes: set[str] = set()
        size = 0
        for name in secrets:
            async with self._slots.slot(namespace):
                contents = await self._contents(namespace, name, written.get(name, ()))
                size += sum(map(len, contents))
                if size > BUNDLE_REDACTION_BYTES:
                    raise WithheldError(
                        "the Secrets that the log may contain have more than "
                        f"{BUNDLE_REDACTION_BYTES // 2**20} MiB"
                    )
                quotes |= await self._quoted(namespace, name, contents, texts)
        return [hide_quotes(text, quotes) for text in texts]

    async def _contents(self, namespace: str, name: str, written: Sequence[bytes]) -> list[bytes]:
        try:
            body = await self._client.get(SECRETS, namespace, name)
            data: dict[str, Any] = body.get("data") or {}
            if len(data) > limits.BUNDLE_VALUES_FILES:
                raise WithheldError(
                    f"Secret {name}, which the log may contain, has {len(data)} keys"
                )
            there = [secret_part(base64.b64decode(text)) for text in data.values()]
            return [*there, *written]
        except (ApiError, binascii.Error):
            if written:
                return list(written)
            raise WithheldError(
                f"Secret {name}, which the log may contain, can't be read"
            ) from None

    async def _quoted(
        self, namespace: str, name: str, contents: list[bytes], texts: Sequence[str]
    ) -> set[str]:
        if _is_small(contents):
            await asyncio.sleep(0)  # so that dozens of small ones don't block the event loop
            return find_quotes(contents, texts)
        try:
            return await self._isolated.call(find_quotes, namespace, contents, list(texts))
        except IsolatedError as error:
            raise WithheldError(f"the search for values of Secret {name} failed: {error}") from None


def secret_part(content: bytes) -> bytes:
    """The credential of a kubeconfig, whose server belongs in an error; else the whole content.

    With a client's key all long values are, as the key stands there in base64 of some form.
    """
    if len(content) > KUBECONFIG_BYTES or _OF_KUBECONFIG not in content:
        return content
    try:
        found = parse_kubeconfig(content)
    except InvalidKubeconfigError:
        return content
    if found.key is None:
        return (found.token or "").encode()
    long = (one for one in _scalars(content.decode()) if len(one) > len(found.server))
    return json.dumps([found.key.decode(), *long]).encode()


_OF_KUBECONFIG: Final = b"current-context"


def _is_small(contents: Sequence[bytes]) -> bool:
    return (
        sum(map(len, contents)) <= limits.BUNDLE_REDACTION_INLINE_BYTES
        and sum(one.count(b"[") + one.count(b"{") for one in contents)
        <= limits.BUNDLE_REDACTION_INLINE_BRACKETS
    )
