"""The manifests of `copyrator install --print`, and the chart's copies of the CRDs."""

import re
import subprocess

from copyrator.cli.offline.install import IMAGE_MARK, MANIFESTS, NAMESPACE_MARK
from demo.chart import CHART, POLICY_API
from localcluster.build import Programs

SOURCES = sorted((CHART.parents[1] / "crds").glob("*.yaml"))

_HELMS_OWN = re.compile(
    r"^ *(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^# Source: .*\n", re.MULTILINE
)
# What the command prints in another way, and what nobody but Helm would ever run.
_NOT_PRINTED = ("kind: CustomResourceDefinition", "helm.sh/hook: ")
_HEAD = "# Written by `make generate` from charts/copyrator: don't edit.\n"


def rendered() -> str:
    """What the chart renders, without CRDs and Helm's own marks."""
    helm = Programs.default().find(["helm"])["helm"]
    repository, _, tag = IMAGE_MARK.partition(":")
    text = subprocess.run(
        [
            *(str(helm), "template", "copyrator", str(CHART), "--namespace", NAMESPACE_MARK),
            *("--set", f"image.repository={repository}", "--set", f"image.tag={tag}"),
            *("--api-versions", POLICY_API),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    documents = [part.strip("\n") for part in text.split("---\n") if part.strip()]
    kept = [part for part in documents if not any(word in part for word in _NOT_PRINTED)]
    return _HEAD + _HELMS_OWN.sub("", "\n---\n".join(kept) + "\n")


# Helm warns of a symbolic link in a chart's directory at each command.
CRDS = {CHART / "files" / "crds" / path.name: path.read_text for path in SOURCES}

FILES = {**CRDS, MANIFESTS: rendered}
