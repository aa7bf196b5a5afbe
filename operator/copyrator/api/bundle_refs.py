"""Bundles that a spec names."""

from __future__ import annotations

from typing import Annotated, Any

from copyrator.api.keys import BundleKey
from copyrator.api.schema import Form, Takes, custom, fail, form_reader
from copyrator.api.texts import NAMESPACE, OBJECT_NAME


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


def named(found: tuple[BundleKey, ...], own: BundleKey, field: str) -> tuple[BundleKey, ...]:
    """The keys with their namespaces, each once; ``own`` among them is refused."""
    whole = [BundleKey(one.namespace or own.namespace, one.name) for one in found]
    if own in whole:
        fail(f"{field}[{whole.index(own)}].name", "is this Bundle itself; remove the item")
    return tuple(dict.fromkeys(whole))
