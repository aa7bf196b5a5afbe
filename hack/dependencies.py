"""Writes docs/dependencies.md: our direct dependencies, their licences, and how alive they are.

`make lock` runs it. The date is that of the newest release that our range takes; it comes from the
package index, by uv. Reasons are written by hand, here: a dependency without one can't be added.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "dependencies.md"

REASONS = {
    "aiohttp": "HTTP: the API server, registries, health and webhook",
    "click": "the command line",
    "google-re2": "regular expressions of users, in linear time",
    "jinja2": "templates of rules, in a sandbox",
    "kopf": "the operator framework",
    "kubernetes": "kubeconfig, exec plug-ins, tokens",
    "msgspec": "fast JSON",
    "packaging": "the order of versions that are no SemVer",
    "prometheus-client": "metrics",
    "pyyaml": "YAML of manifests",
    "rich": "output for people",
    "semver": "the order of versions",
}

HEAD = """\
# Direct dependencies

Written by `make lock`; don't edit. The last release is the newest one that our range takes. A test
fails when it is more than two years older than this page, when a licence isn't one of those that
Apache-2.0 software may depend on, or when a vulnerability is known (`make audit`).

As of {today}.

| dependency | what for | licence | version | last release |
|---|---|---|---|---|
"""


def main() -> int:
    """Write the page; the only argument is the path of uv."""
    (uv,) = sys.argv[1:]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = sorted(re.split(r"[^a-z0-9-]", line)[0] for line in project["dependencies"])
    released = _released(uv, project)
    rows = [
        f"| {name} | {REASONS[name]} | {licence(name)} | {version} | {day} |\n"
        for name, (version, day) in ((name, released[name]) for name in direct)
    ]
    today = datetime.datetime.now(datetime.UTC).date()
    DOCUMENT.write_text(HEAD.format(today=today) + "".join(rows))
    print(f"Wrote {DOCUMENT.relative_to(ROOT)}")
    return 0


def licence(name: str) -> str:
    """The licence of an installed distribution, as its own metadata has it."""
    metadata = importlib.metadata.metadata(name)
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = metadata.get_all("Classifier") or []
    named = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    return ", ".join(named) or (metadata["License"] or "unknown").partition("\n")[0]


def _released(uv: str, project: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Version and day of each dependency's newest release in our range."""
    with tempfile.TemporaryDirectory() as folder:
        needs = [f"  {line!r}," for line in project["dependencies"]]
        head = ["[project]", 'name = "look"', 'version = "0"', "dependencies = [", *needs, "]"]
        head.append(f'requires-python = "{project["requires-python"]}"')
        Path(folder, "pyproject.toml").write_text("\n".join(head))
        subprocess.run([uv, "lock", "--quiet", "--project", folder], check=True)
        lock = tomllib.loads(Path(folder, "uv.lock").read_text())
    return {
        package["name"]: (package["version"], _uploaded(package))
        for package in lock["package"]
        if "registry" in package["source"]
    }


def _uploaded(package: dict[str, Any]) -> str:
    files = [package.get("sdist") or {}, *package.get("wheels", ())]
    return max((str(one.get("upload-time", ""))[:10] for one in files), default="unknown")


if __name__ == "__main__":
    sys.exit(main())
