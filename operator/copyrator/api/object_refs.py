"""Objects that a spec names: ConfigMaps and Secrets in its own object's namespace, and Bundles."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

from copyrator.api.keys import BundleKey
from copyrator.api.schema import (
    NAMESPACE,
    OBJECT_NAME,
    REQUIRED,
    Form,
    Takes,
    custom,
    fail,
    form_reader,
)

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


class BundleRef(Form, kw_only=True):
    """A Bundle."""

    namespace: Annotated[str, NAMESPACE] = ""
    """Its namespace; default that of this Bundle."""
    name: Annotated[str, OBJECT_NAME]
    """Its name."""


def bundle_ref(form: type[BundleRef] = BundleRef) -> Takes:
    """A Bundle, by its key; without a namespace where that is the Bundle's own (``named``)."""

    def read_key(value: Any) -> BundleKey:
        found = form_reader(form)(value)
        return BundleKey(found.namespace, found.name)

    return custom(read_key, like=form)


BUNDLE_REF: Final = bundle_ref()


def named(found: tuple[BundleKey, ...], own: BundleKey, field: str) -> tuple[BundleKey, ...]:
    """The keys with their namespaces, each once; ``own`` among them is refused."""
    whole = [BundleKey(one.namespace or own.namespace, one.name) for one in found]
    if own in whole:
        fail(f"{field}[{whole.index(own)}].name", "is this Bundle itself; remove the item")
    return tuple(dict.fromkeys(whole))
