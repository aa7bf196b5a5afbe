"""What we remember of a source: all that its copies need, and nothing else of the object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.rules.matching import Consent, read_consent, refusal

_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One object that matches a rule's source."""

    resource_version: str
    body: Mapping[str, Any]
    """With apiVersion and kind; without data where it is refused."""
    refused: str | None = None
    """Why it is never copied."""
    _consent: list[Consent | None] = field(default_factory=list, init=False, repr=False)
    """What its annotation says, once it has been read."""

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
        """Where it may be copied to, by its annotation; None where it doesn't say."""
        if not self._consent:
            self._consent.append(read_consent(self.annotations, names.ANN_ALLOW_TO))
        return self._consent[0]

    def allows(self, target: str) -> bool:
        """Tell whether it may be copied into a namespace; without a word it may."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Decodes the sources of one kind: objects of a list don't say what they are.

    A frozen dataclass, so that equal readers make equal watches, which are shared.
    """

    api_version: str
    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceRecord:
        """Keep what is copied; an object that is never copied is held without its content."""
        found = body["metadata"]
        metadata = {key: found[key] for key in _KEPT_METADATA if found.get(key)}
        refused = refusal(self.kind, body)
        content = {} if refused else {k: v for k, v in body.items() if k not in _SERVERS}
        return SourceRecord(
            resource_version=str(found["resourceVersion"]),
            body={
                **content,
                "apiVersion": self.api_version,
                "kind": self.kind,
                "metadata": metadata,
            },
            refused=refused,
        )


_SERVERS: Final = ("status", "metadata")
