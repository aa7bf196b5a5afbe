"""`helm get manifest` and `helm get hooks` of werf 2: what is stored of a revision."""

from __future__ import annotations

from . import release
from .client import Client
from .errors import WerfError


def get(what: str, name: str, namespace: str, revision: int) -> None:
    """Print it as helm does: a hook's manifest, which begins with its source, after its source."""
    past = release.history(name, Client(namespace), layers="query")
    found = next((each for each in past if each.revision == revision), None)
    if found is None:
        raise WerfError("release: not found")
    if what == "manifest":
        print(found.manifest)
        return
    for path, text in zip(found.paths, found.hooks, strict=True):
        print(f"---\n# Source: {path}\n{text}")
