"""The record of a source: all that its copies need, and nothing else of the object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from copyrator.api import names
from copyrator.api.consent import Consent, read_consent
from copyrator.copies.policy.matching import refusal
from copyrator.settings.limits import SOURCE_OVERHEAD

_NAME: Final = ("name", "namespace")
_KEPT_METADATA: Final = (*_NAME, "labels", "annotations")


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One object that a rule's source selects."""

    resource_version: str
    body: Mapping[str, Any]
    """With apiVersion and kind; without data where it is refused."""
    refused: str | None = None
    """Why it is never copied."""
    size: int = 0
    """Bytes that it takes when it is held whole; an estimate."""
    whole: bool = True
    """False where there was no room for more than its name."""
    _consent: list[Consent | None] = field(default_factory=list, init=False, repr=False)
    """What its annotation allows, once it has been parsed."""

    @property
    def held(self) -> int:
        """Bytes that are held of it."""
        return self.size if self.whole else 0

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations."""
        return self.body["metadata"].get("annotations") or {}

    @property
    def consent(self) -> Consent | None:
        """Where it may be copied to, by its annotation; None where it has none."""
        if not self._consent:
            self._consent.append(read_consent(self.annotations, names.ANN_ALLOW_TO))
        return self._consent[0]

    def allows(self, target: str) -> bool:
        """Whether it may be copied into a namespace; True without the annotation."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Decodes the sources of one kind: objects of a list have no kind of their own.

    A frozen dataclass, so that equal readers make equal watches, which are shared.
    """

    api_version: str
    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceRecord:
        """Keep what is copied; of an object that is never copied only its name."""
        found = body["metadata"]
        refused = refusal(self.kind, body)
        kept = _NAME if refused else _KEPT_METADATA
        content = {} if refused else {k: v for k, v in body.items() if k not in _SERVERS}
        held = {
            **content,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {key: found[key] for key in kept if found.get(key)},
        }
        return SourceRecord(
            resource_version=str(found["resourceVersion"]),
            body=held,
            refused=refused,
            size=len(msgspec.json.encode(held)) + SOURCE_OVERHEAD,
        )


_SERVERS: Final = ("status", "metadata")
