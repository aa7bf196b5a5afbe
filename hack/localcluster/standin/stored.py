"""`helm get manifest` and `helm get hooks` of werf 2: what is stored of a revision."""

from __future__ import annotations

from . import release
from .client import Client
from .errors import WerfError
from .settings import Get


def get(wanted: Get) -> None:
    """Print it as helm does: a hook's manifest, which begins with its source, after its source.

    Raises:
        WerfError: there is no such revision, or Secrets can't be read.
    """
    past = release.history(wanted.release, Client(wanted.namespace), layers="query")
    found = next((each for each in past if each.revision == wanted.revision), None)
    if found is None:
        raise WerfError("release: not found")
    if wanted.what == "manifest":
        print(found.manifest)
        return
    for path, text in zip(found.paths, found.hooks, strict=True):
        print(f"---\n# Source: {path}\n{text}")
