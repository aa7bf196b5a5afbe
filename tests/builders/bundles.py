"""Bundles as their authors write them, and as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle


def bundle(name: str = "shop", namespace: str = "prod", **spec: Any) -> dict[str, Any]:
    """The smallest Bundle, and these fields of its spec."""
    smallest = {"registry": "registry.example.com", "repo": "team/app"}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": smallest | spec}


def parsed(body: Any, defaults: BundleDefaults | None = None) -> BundleSpec:
    """What is read of a valid Bundle."""
    found = parse_bundle(body, defaults or BundleDefaults())
    assert isinstance(found, BundleSpec), found
    return found


def refused(body: Any, defaults: BundleDefaults | None = None) -> InvalidSpec:
    """What is wrong with an invalid one."""
    found = parse_bundle(body, defaults or BundleDefaults())
    assert isinstance(found, InvalidSpec), found
    return found


def known(
    spec: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    *,
    name: str = "shop",
    **status: Any,
) -> dict[str, Any]:
    """A Bundle as the API server has it: with further fields, annotations of ours, and a status."""
    named = {f"operator.werf.dev/{key}": value for key, value in (annotations or {}).items()}
    metadata = {"namespace": "apps", "name": name, "uid": "u", "generation": 1}
    return {
        "metadata": {**metadata, "annotations": named},
        "spec": {"registry": "r.example.com", "repo": "shop", **(spec or {})},
        "status": status,
    }
