"""Charts that a bundle depends on and doesn't hold: werf downloads them, once for each HOME."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from . import registry, tools
from .errors import WerfError

_LOCK = "Chart.lock"


def complete(chart: Path, env: Mapping[str, str]) -> None:
    """Put into ``charts/`` what Chart.lock names and it lacks, from the cache of this HOME.

    What the cache lacks, too, is downloaded, and said on standard output in helm's words. What a
    dependency lacks isn't looked for.

    Raises:
        WerfError: nothing locks a missing dependency, or it can't be downloaded.
    """
    missing = _missing(chart)
    if not missing:
        return
    lock = chart / _LOCK
    if not lock.is_file():
        # What werf does without a lock, docs/facts/werf.md doesn't say; these are helm's words.
        words = ", ".join(missing)
        raise WerfError(f"found in Chart.yaml, but missing in charts/ directory: {words}")
    home = Path(env.get("WERF_HOME") or Path(env.get("HOME", "/")) / ".werf")
    cache = home / "local_cache" / "helm_chart_dependencies"
    kept = cache / sha256((chart / "Chart.yaml").read_bytes() + lock.read_bytes()).hexdigest()
    if not kept.is_dir():
        _download(lock, kept)
    for name in missing:
        for packed in (kept / "charts").glob(f"{name}-[0-9v]*.tgz"):
            with tarfile.open(packed) as archive:
                registry.unpack(archive, chart / "charts")


def _missing(chart: Path) -> list[str]:
    if "dependencies" not in (chart / "Chart.yaml").read_text():
        return []
    listed = tools.run("helm", "dependency", "list", str(chart)).checked("load chart")
    rows = [line.split() for line in listed.splitlines()]
    return [row[0] for row in rows if row and row[-1] == "missing"]


def _download(lock: Path, into: Path) -> None:
    """Download all that a lock names.

    By `helm dependency update` of a chart with just that, as `build` wants repositories by name.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="werf-chart-") as directory:
        bare = Path(directory) / "chart"
        bare.mkdir()
        about = "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
        (bare / "Chart.yaml").write_text(about + lock.read_text())
        ran = tools.run("helm", "dependency", "update", str(bare))
        print(ran.checked("download chart dependencies"), end="", flush=True)
        shutil.copytree(bare, into)
