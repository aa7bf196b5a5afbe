"""A container's environment, command and arguments, resolved as the kubelet does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .sources import MissingReference, Sources


@dataclass(slots=True)
class Environment:
    """Resolved variables.

    Attributes:
        values: name to value.
        secret: names whose value came from a Secret, and so must be passed on untouched.
    """

    values: dict[str, str] = field(default_factory=dict)
    secret: set[str] = field(default_factory=set)

    def put(self, name: str, value: str, *, secret: bool) -> None:
        """Set a variable; the last one of a name wins."""
        self.values[name] = value
        self.secret.discard(name)
        if secret:
            self.secret.add(name)


async def resolve(
    container: Mapping[str, Any], pod: Mapping[str, Any], sources: Sources, given: Mapping[str, str]
) -> Environment:
    """Resolve a container's variables.

    Args:
        container: its spec.
        pod: the pod, for fieldRef.
        sources: ConfigMaps and Secrets.
        given: variables that the node sets; the container's own win over them.

    Raises:
        MissingReference: something that isn't optional is missing.
    """
    result = Environment(dict(given))
    for group in container.get("envFrom") or []:
        for kind, member in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if member not in group:
                continue
            origin = group[member]
            optional = bool(origin.get("optional"))
            values = await sources.content(kind, origin["name"], optional=optional)
            for key, value in values.items():
                if "=" not in key:
                    name = group.get("prefix", "") + key
                    result.put(name, _text(value), secret=kind == "Secret")
    for variable in container.get("env") or []:
        await _add(result, variable, pod, sources)
    return result


async def _add(
    result: Environment, variable: Mapping[str, Any], pod: Mapping[str, Any], sources: Sources
) -> None:
    name, origin = variable["name"], variable.get("valueFrom")
    if not origin:
        # Only what stands before a variable can be named in it, as on a real node.
        result.put(name, expand(variable.get("value") or "", result.values), secret=False)
        return
    if "fieldRef" in origin:
        result.put(name, field_value(pod, origin["fieldRef"]["fieldPath"]), secret=False)
        return
    for kind, member in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if member not in origin:
            continue
        source = origin[member]
        optional = bool(source.get("optional"))
        values = await sources.content(kind, source["name"], optional=optional)
        if source["key"] in values:
            result.put(name, _text(values[source["key"]]), secret=kind == "Secret")
        elif not optional:
            where = f"{pod['metadata']['namespace']}/{source['name']}"
            raise MissingReference(f"couldn't find key {source['key']} in {kind} {where}")
        return
    source_kind = next(iter(origin))
    raise MissingReference(f"variable {name}: a process node doesn't know valueFrom.{source_kind}")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by a value; ``$$`` is one dollar; an unknown name stays as it is.

    The rules are those of k8s.io/kubernetes/third_party/forked/golang/expansion.
    """

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else values.get(found[1], found[0])

    return re.sub(r"\$(?:\$|\((.*?)\))", value, text, flags=re.DOTALL)


def field_value(pod: Mapping[str, Any], path: str) -> str:
    """The value of a fieldRef.

    Raises:
        MissingReference: the node doesn't know the field; the message names it.
    """
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(pod["metadata"][path.removeprefix("metadata.")])
    raise MissingReference(f"a process node doesn't know the field {path}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
