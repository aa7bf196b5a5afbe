"""Files that upstream ships beside its code, such as CRDs, from a pinned Go module."""

import json
import os
import subprocess
from pathlib import Path

from localcluster.build import Programs, explain, find_toolchain
from localcluster.pins import MODULES


def prometheus_operator_crds(*plurals: str) -> list[Path]:
    """The CRD of each of these kinds of the Prometheus operator.

    Raises:
        BuildFailedError: the module can't be downloaded; says what to do.
    """
    folder = _module_source("prometheus-operator") / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{plural}.yaml" for plural in plurals]


def _module_source(name: str) -> Path:
    """Where Go's module cache has the module's files; go.sum verifies them."""
    module = next(module for module in MODULES if module.name == name)
    programs = Programs.default()
    toolchain = find_toolchain(module.required_go(), programs.cache, programs.progress.line)
    wanted = f"{module.requires}@{module.version}"
    done = subprocess.run(
        [toolchain.go, "mod", "download", "-json", wanted],
        cwd=module.directory,
        env={**os.environ, **toolchain.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise explain(f"downloading {wanted}", done.stdout + done.stderr, programs.cache)
    return Path(json.loads(done.stdout)["Dir"])
