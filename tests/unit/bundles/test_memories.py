"""What is remembered of a Bundle is dropped with it, and is read by nobody but its owner."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from copyrator import bundles
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories

SHOP, OTHER = BundleKey("team", "shop"), BundleKey("team", "other")


@dataclass
class Count:
    number: int = 0


@dataclass
class Text:
    text: str = ""


def test_each_class_is_made_at_its_first_use_and_dropped_with_the_bundle() -> None:
    memories, released = Memories(), list[tuple[BundleKey, Count | None]]()
    memories.on_drop(lambda key: released.append((key, memories.find(key, Count))))
    assert memories.find(SHOP, Count) is None
    assert not len(memories), "to look for it makes nothing"
    memories.of(SHOP, Count).number = 1
    memories.of(OTHER, Text)
    assert memories.of(SHOP, Count) is memories.find(SHOP, Count)
    assert list(memories.each(Count)) == [(SHOP, Count(1))]
    memories.forget(OTHER, Text)
    assert memories.find(OTHER, Text) is None
    memories.drop(SHOP)
    assert released == [(SHOP, Count(1))], "whoever releases something still sees it"
    assert memories.find(SHOP, Count) is None
    assert len(memories) == 1


def test_what_is_remembered_is_read_in_the_module_of_its_class_alone() -> None:
    used = 0
    for path in Path(bundles.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or "memories." not in ast.unparse(node.func):
                continue
            named = {ast.unparse(one) for one in node.args[-1:] if isinstance(one, ast.Name)}
            kinds = {name for name in named if name.lstrip("_")[:1].isupper()}
            used += len(kinds)
            assert kinds <= own, f"{path.name} reads {kinds - own} of another module"
    assert used > 20
