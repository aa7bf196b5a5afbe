"""A rule's spec as msgspec Structs, as far as types and patterns say it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
Kind = Annotated[str, Meta(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]
Glob = Annotated[str, Meta(pattern=r"^[-a-z0-9*?]+$", max_length=253)]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Expression(_Strict):
    """Of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class Selector(_Strict):
    """A label selector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Expression] = []


class Source(_Strict):
    """spec.source."""

    kind: Kind
    api_version: str | None = None
    namespace: Name | None = None
    namespaces: list[Name] | None = None
    name: Name | None = None
    selector: Selector | None = None


class Targets(_Strict):
    """spec.targets."""

    namespaces: list[Glob] = []
    exclude: list[Glob] = []
    selector: Selector | None = None


class Keys(_Strict):
    """spec.transform.keys."""

    include: list[str] = []
    exclude: list[str] = []
    rename: dict[str, str] = {}


class Transform(_Strict):
    """spec.transform."""

    name: str | None = None
    keys: Keys | None = None
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}


class Spec(_Strict):
    """spec."""

    source: Source | None = None
    template: dict[str, Any] | None = None
    targets: Targets | None = None
    transform: Transform | None = None
    on_conflict: Literal["Skip", "Adopt", "Overwrite"] = "Skip"
    on_immutable: Literal["Fail", "Recreate"] = "Fail"
    deletion_policy: Literal["Delete", "Orphan"] = "Delete"
    limit: Annotated[int, Meta(ge=1)] = 100_000
    mode: Literal["Apply", "Plan"] = "Apply"
    suspend: bool = False


class Rule(msgspec.Struct):
    """The whole object."""

    spec: Spec
