"""Where a container's absolute paths really are.

There is no mount namespace, so ``/values/x.yaml`` of a container lies in the pod's directory. A
PathMap knows the mapped paths of one container and rewrites them where they occur in a text, be
it a whole argument, a part of one (``--values=/values/x.yaml``) or a shell script.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

# What may not stand right before a path for it to be one: `/data/tmp`, `a/tmp`, `$(pwd)/tmp` and
# `${HOME}/tmp` don't mean /tmp. A quote, `=`, `:`, `>`, `@` or `:-` may.
_BEFORE = r"(?:(?<![\w./})\]~%*$])|(?<=file://))"
# What may not follow: `/tmpfile`, `/tmp.old` and `/tmp-1` are other paths.
_AFTER = r"(?![\w.-])"


class PathMap:
    """A container's mapped paths: a path in the container to the real one."""

    def __init__(self, mapping: Mapping[str, Path]) -> None:
        self._real = {normal(path): str(real) for path, real in mapping.items()}
        longest_first = sorted(self._real, key=len, reverse=True)
        alternatives = "|".join(re.escape(path) for path in longest_first)
        self._pattern = re.compile(f"{_BEFORE}({alternatives}){_AFTER}") if alternatives else None

    def rewrite(self, text: str) -> str:
        """Replace every mapped path in a text, each once, the longest that fits."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._real[match[1]], text)


def normal(path: str) -> str:
    """A path in a container without ``..``, doubled slashes and a slash at the end."""
    return posixpath.normpath("/" + path.lstrip("/"))


def inside(root: Path, path: str) -> Path:
    """The place of a container's absolute path under a directory that stands for its root."""
    return root / normal(path).lstrip("/")
