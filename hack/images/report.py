"""What an image consists of, in figures for the documents."""

from __future__ import annotations

from collections import Counter

from images.layout import Layout
from images.trim import LIBRARY

_SHOWN = 12


def contents(image: Layout) -> Counter[str]:
    """Unpacked bytes above the base, by package."""
    found: Counter[str] = Counter()
    for layer in image.layers[1:]:
        for path, size in image.files(layer):
            inside = path.removeprefix(f"{LIBRARY}/")
            found[inside.partition("/")[0] if inside != path else "launcher and licence"] += size
    return found


def text(image: Layout) -> str:
    """The report: size over the base, which is one layer, and what takes how much of it."""
    sizes = contents(image)
    total, packed = sum(sizes.values()), sum(map(image.packed_bytes, image.layers[1:]))
    lines = [
        f"{_megabytes(total)} MB over the base ({_megabytes(packed)} MB to pull), of which in MB:",
        *(f"  {_megabytes(size):>5}  {name}" for name, size in sizes.most_common(_SHOWN)),
    ]
    rest = sum(size for _, size in sizes.most_common()[_SHOWN:])
    return "\n".join([*lines, f"  {_megabytes(rest):>5}  {len(sizes) - _SHOWN} more"])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"
