"""The CRDs: what isn't of a field is here, everything else is in the types (generate.crds)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.reasons import described
from copyrator.api.rule_spec import CopyratorRule
from copyrator.api.schema import Column, Root, Schema
from copyrator.bundles.fields import (
    Bundle,
    bundle_conditions,
    bundle_reasons,
    spec_parts,
    status_parts,
)
from demo.chart import ROOT
from generate.cells import Indented
from generate.crds import composed, schema_of, unwrapped

CRDS = ROOT / "crds"
_HEAD = "# Written by `make generate` from the types in operator/copyrator: don't edit.\n"


def definition(api_version: str, kind: str, root: type[Root], **other: Schema) -> Schema:
    """A CRD, of the type of its objects.

    ``other`` are the schemas of fields that aren't of one type, and of ``metadata``.
    """
    group, _, version = api_version.partition("/")
    schema = schema_of(root, description=unwrapped(root.__doc__ or ""))
    if "spec" in other:
        schema["required"] = ["spec"]
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": f"Always {api_version}."},
        "kind": {"type": "string", "description": f"Always {kind}."},
        "metadata": {"type": "object"},  # the API server allows no description here
        **schema["properties"],
        **other,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{root.NAMES['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "preserveUnknownFields": False,  # for those that were created under v1beta1
            "names": {"kind": kind, "listKind": f"{kind}List", **root.NAMES},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(one) for one in root.COLUMNS],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _column(one: Column) -> dict[str, Any]:
    return {"type": one.type, **msgspec.to_builtins(one)}


_ORDER = (
    *("apiVersion", "name", "type", "format", "description", "default", "enum"),
    *("minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "maxProperties"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-preserve-unknown-fields", "required", "x-kubernetes-validations"),
)
"""Keys that come before others of their map, in this order."""
_WIDTH = 100


class _Dumper(Indented):
    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _as_map(dumper: _Dumper, value: dict[str, Any]) -> yaml.Node:
    is_schema = "type" in value or "properties" in value
    ordered = sorted(value, key=_place) if is_schema else value
    pairs = [(name, value[name]) for name in ordered]
    return dumper.represent_mapping("tag:yaml.org,2002:map", pairs, flow_style=False)


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _as_list(dumper: _Dumper, value: list[Any]) -> yaml.Node:
    is_flat = not any(isinstance(one, dict) for one in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=is_flat)


def _as_text(dumper: _Dumper, value: str) -> yaml.Node:
    style = ">" if " " in value and len(value) > 60 else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(dict, _as_map)
_Dumper.add_representer(list, _as_list)
_Dumper.add_representer(str, _as_text)


def _text(found: Schema) -> str:
    return _HEAD + yaml.dump(found, Dumper=_Dumper, width=_WIDTH - 8, allow_unicode=True)


def rules() -> str:
    """The CRD of CopyratorRules."""
    return _text(definition(names.RULE_API_VERSION, names.RULE_KIND, CopyratorRule))


def bundles() -> str:
    """The CRD of Bundles."""
    spec = composed(BundleSpec, spec_parts(), description="What is deployed, from where, and how.")
    observed = "Observed state. Set by the operator, except forceUpdate."
    status = composed(BundleStatus, status_parts(), description=observed)
    condition = status["properties"]["conditions"]["items"]["properties"]
    types = (f"{one.name} ({one.meaning})" for one in bundle_conditions().values())
    condition["type"]["description"] = f"{described(types)}."
    condition["reason"]["description"] = _reasons()
    metadata = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": names.MAX_RELEASE_NAME}},
    }
    found = definition(
        *(names.BUNDLE_API_VERSION, names.BUNDLE_KIND, Bundle),
        metadata=metadata,
        spec=spec,
        status=status,
    )
    return _text(found)


def _reasons() -> str:
    """The words of all reasons of conditions."""
    kinds = "; of ".join(
        f"{one.name} {described(one.reasons)}"
        for one in bundle_conditions().values()
        if one.reasons
    )
    every = described(bundle_reasons().values())
    return f"Reason in CamelCase: {every}. Of {kinds}.".replace(
        ". Of Drifted ", ". Of Drifted also "
    )


FILES: dict[Path, Callable[[], str]] = {
    CRDS / "copyrators.flant.com.yaml": rules,
    CRDS / "bundles.operator.werf.dev.yaml": bundles,
}
