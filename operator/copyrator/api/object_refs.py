"""ConfigMaps and Secrets that a spec names, in the namespace of the object that names them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from copyrator.api.schema import REQUIRED, Form
from copyrator.api.texts import OBJECT_NAME

NO_OBJECT: Final = "is required: the kind and name of a ConfigMap or Secret"


class ValuesKind(StrEnum):
    """Kinds from which values files are read."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - a kind, not a password


class LocalObjectRef(Form):
    """A ConfigMap or Secret whose keys are files for verifying."""

    name: Annotated[str, OBJECT_NAME]
    """Name of the object, in the Bundle's namespace."""
    kind: Annotated[ValuesKind, REQUIRED] = ValuesKind.CONFIG_MAP
    """ConfigMap or Secret."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
