"""Lists of Bundles in a spec: ``dependsOn`` and ``promoteFrom.bundles``."""

from __future__ import annotations

from copyrator.api import syntax
from copyrator.api.fields import Fields
from copyrator.api.keys import BundleKey


def read_bundles(fields: Fields, name: str, own: BundleKey, *, most: int) -> tuple[BundleKey, ...]:
    """The Bundles of a list, each once; a namespace that is left out is that of ``own``.

    Raises:
        SpecError: it isn't valid, or names ``own``.
    """
    items = fields.items(name)
    if len(items) > most:
        fields.fail(name, f"has {len(items)} items; at most {most} are allowed")
    found: dict[BundleKey, None] = {}
    for i, item in enumerate(items):
        one = Fields(item, f"{fields.at(name)}[{i}]")
        namespace = one.text("namespace", syntax.namespace) or own.namespace
        key = BundleKey(namespace, one.required_text("name", syntax.object_name))
        if key == own:
            one.fail("name", "is this Bundle itself; remove the item")
        found[key] = None
    return tuple(found)
