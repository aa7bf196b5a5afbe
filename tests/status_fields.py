"""The fields of a status, by their types."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import GenericAlias
from typing import Any, get_args, get_origin

from tests.replacing import replace

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.schema import Packed, Record, slots
from copyrator.bundles import features
from copyrator.bundles.fields import ENGINE_STATUS, status_parts


def json_fields(record: type[Record]) -> dict[str, Any]:
    """JSON names of a record's fields, each with its type: a Record, ``tuple``, or a scalar."""
    found = {
        one.name: GenericAlias(tuple, (*get_args(one.kind), ...))
        if get_origin(one.kind) is Packed
        else one.kind
        for one in slots(record)
    }
    for part in status_parts() if record is BundleStatus else ():
        found |= {part.FIELD: part} if part.FIELD else json_fields(part)
    return found


def changed(status: BundleStatus, **changes: Any) -> BundleStatus:
    """The status with other fields, those of its parts by their names.

    Also those of features that are taken out (tests/without.py).
    """
    for kind in _all_parts():
        if kind.FIELD:
            part = changes.pop(_snake(kind.FIELD), None)
        else:
            own = {name: changes.pop(name) for name in kind.__struct_fields__ if name in changes}
            part = replace(status.part(kind), **own) if own else None
        status = status if part is None else status.with_part(part)
    return replace(status, **changes)


@cache
def _all_parts() -> tuple[type[Record], ...]:
    names = [f"{features.__name__}.{one.name}.fields" for one in iter_modules(features.__path__)]
    listed = [getattr(import_module(one), "STATUS", ()) for one in names if find_spec(one)]
    return (*ENGINE_STATUS, *(part for parts in listed for part in parts))


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
