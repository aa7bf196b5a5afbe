"""`copyrator install --print`: the chart's manifests and the CRDs, for use without Helm."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import click
import yaml

_PACKAGED = Path(__file__).parents[2] / "crds"
_CLONE = Path(__file__).parents[4] / "crds"


def crd_texts() -> list[str]:
    """The manifests of both CRDs as text."""
    home = _PACKAGED if _PACKAGED.is_dir() else _CLONE
    return [path.read_text() for path in sorted(home.glob("*.yaml"))]


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """The schema of each kind of ours."""
    found = {}
    for text in crd_texts():
        spec = yaml.safe_load(text)["spec"]
        found[spec["names"]["kind"]] = spec["versions"][0]["schema"]["openAPIV3Schema"]
    return found


MANIFESTS = Path(__file__).with_name("install.yaml")
"""What the chart renders by default, written by `make generate`; a test compares both."""

NAMESPACE_MARK, IMAGE_MARK = "copyrator-namespace", "copyrator-image:tag"
"""Placeholders in MANIFESTS for the options."""

_SEPARATOR = "\n---\n"
_POLICY = "\nkind: ValidatingAdmissionPolicy"
"""In a manifest of a policy, or of its binding."""


@click.command()
@click.option("--print", "wanted", is_flag=True, help="Print the manifests; nothing is applied.")
@click.option("-n", "--namespace", default="copyrator", show_default=True, metavar="NAME")
@click.option("--image", metavar="IMAGE", help="The operator's image, with its tag or digest.")
@click.option("--crds/--no-crds", default=True, show_default=True, help="Include both CRDs.")
@click.option(
    "--policies/--no-policies",
    default=True,
    show_default=True,
    help="Include the admission policies; they require Kubernetes 1.30.",
)
def install(wanted: bool, namespace: str, image: str | None, crds: bool, policies: bool) -> None:
    """Print the manifests of the operator: what the chart renders with its default values.

    copyrator install --print --image REGISTRY/copyrator:TAG | kubectl apply --server-side -f -

    That includes the policies about who may approve plans and who may set the marks of copies.
    """
    if not wanted or image is None:
        raise click.UsageError(
            "--print and --image are required:\n"
            "  copyrator install --print --image IMAGE | kubectl apply --server-side -f -"
        )
    parts = crd_texts() if crds else []
    parts.append(f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n")
    text = MANIFESTS.read_text().replace(NAMESPACE_MARK, namespace).replace(IMAGE_MARK, image)
    kept = [part for part in text.split(_SEPARATOR) if policies or _POLICY not in part]
    parts.append(_SEPARATOR.join(kept))
    click.echo(
        "---\n".join(part if part.endswith("\n") else part + "\n" for part in parts), nl=False
    )
