"""Which field manager wrote a field of an object last, by ``metadata.managedFields``. Pure.

A client chooses the name of its field manager: it doesn't prove who wrote something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

SPEC: Final = "spec"
_MOST: Final = 128
"""Characters of a name, as the API server allows."""
_PLAIN: Final = re.compile(r"[-./:@\w]+", re.ASCII)


class Managers(dict[str, str]):
    """Those that wrote the spec, as ``spec``, and annotations last, by the field's name."""

    def writer(self, *fields: str) -> str | None:
        """What wrote the first of these that is known: ``field manager kubectl-edit``."""
        found = (self[one] for one in fields if one in self)
        return next((f"field manager {_quoted(one)}" for one in found), None)


def _quoted(name: str) -> str:
    """In quotes where it might read as more than a name, as in `x, approved by ann`."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name)


def last_managers(metadata: Mapping[str, Any], prefix: str) -> Managers:
    """The last managers of the spec, and of annotations with this prefix.

    Times are whole seconds: of two managers of the same second the later one of the list counts.
    """
    newest: dict[str, tuple[str, str]] = {}
    for entry in metadata.get("managedFields") or ():
        time, manager = str(entry.get("time") or ""), str(entry.get("manager") or "")[:_MOST]
        fields = _at(entry, "fieldsV1")
        annotations = _at(_at(fields, "f:metadata"), "f:annotations")
        written = [key[2:] for key in annotations if key.startswith(f"f:{prefix}")]
        written += [SPEC] if "f:spec" in fields else []
        newest |= {one: (time, manager) for one in written if time >= newest.get(one, ("",))[0]}
    return _shared(tuple((name, manager) for name, (_, manager) in newest.items() if manager))


@lru_cache(maxsize=1024)
def _shared(managers: tuple[tuple[str, str], ...]) -> Managers:
    """Cached, so that most objects share theirs; never changed."""
    return Managers(managers)


def _at(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = fields.get(key)
    return found if isinstance(found, Mapping) else {}
