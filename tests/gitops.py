"""What Argo CD and Flux make of a rule or Bundle, by the health checks in examples/gitops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cel
import yaml
from lupa.lua51 import LuaRuntime

GITOPS = Path(__file__).resolve().parents[1] / "examples" / "gitops"
ARGOCD = yaml.safe_load((GITOPS / "argocd-health.yaml").read_text())["data"]
FLUX = yaml.safe_load((GITOPS / "flux-kustomization.yaml").read_text())["spec"]

LIBRARIES = frozenset({"coroutine", "debug", "io", "math", "python", "string"})
"""Of Lua 5.1, and lupa's: Argo CD's scripts have the basic functions, table, package and a safe os
(its util/lua/lua.go at 37ee009).
"""
STATUSES = frozenset({"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"})

Object = Mapping[str, Any]


def argocd(body: Object) -> tuple[str, str]:
    """Argo CD's health status of an object, and its message."""
    if body["metadata"].get("deletionTimestamp"):
        return "Progressing", "Pending deletion"
    group = body["apiVersion"].partition("/")[0]
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    names = lua.globals()
    for name in LIBRARIES:
        names[name] = None
    names["obj"] = lua.table_from(body, recursive=True)
    found = lua.execute(ARGOCD[f"resource.customizations.health.{group}_{body['kind']}"])
    assert found.status in STATUSES
    return found.status, found.message


def flux(body: Object, *, by_exprs: bool = True) -> str:
    """Flux's status of an object: by `healthCheckExprs`, or by kstatus where it has none.

    Sources: runtime/cel/status_evaluator.go of fluxcd/pkg at e2cfd1a; pkg/kstatus/status of
    sigs.k8s.io/cli-utils at 5895ad6 (generic.go, status.go).
    """
    metadata, status = body["metadata"], body.get("status", {})
    if metadata.get("deletionTimestamp") and not by_exprs:
        return "Terminating"
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return "InProgress"
    if by_exprs:
        (exprs,) = [
            one
            for one in FLUX["healthCheckExprs"]
            if (one["apiVersion"], one["kind"]) == (body["apiVersion"], body["kind"])
        ]
        try:
            if cel.evaluate(exprs["failed"], dict(body)):
                return "Failed"
            return "Current" if cel.evaluate(exprs["current"], dict(body)) else "InProgress"
        except RuntimeError:
            return "Unknown"
    found = {one["type"]: one["status"] for one in status.get("conditions", [])}
    if found.get("Reconciling") == "True":
        return "InProgress"
    if found.get("Stalled") == "True":
        return "Failed"
    return "Current" if found.get("Ready", "True") == "True" else "InProgress"
