"""Manifests as objects, and the labels and annotations that werf adds to them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from .errors import WerfError

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # the image of tests/node has the library without its C extension
    from yaml import SafeLoader as _Base  # type: ignore[assignment]

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace (empty for the release's own) and name."""
VERSION = "werf.io/version"
"""The annotation that says which werf deployed an object. The stand-in prints it where werf does,
but doesn't write it."""
HOOK = "helm.sh/hook"
"""The annotation that makes an object a hook, with the occasions."""
# Strings that can stand in a line without quotes, those of them that would be something else then,
# and those that can be a block.
_PLAIN = re.compile(r"[\w<./](?:[\w./<>()+=,;-]|[: ](?=[\w./<>()+=-]))*", re.ASCII)
_OTHER = re.compile(
    r"~|null|true|false|yes|no|on|off|[yn]|<<|=|\.inf|\.nan|0[xob][0-9a-f_]+"
    r"|[0-9_]*\.?[0-9_]*(e[-+]?[0-9]+)?|[0-9_]+(:[0-9]+)+(\.[0-9_]*)?|\d{4}-\d\d?-\d\d?.*",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"(?=.*\n)(?!.* \n)[!-~](?:[ -~\n]*[!-~])?\n*", re.DOTALL)
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def find_annotation(annotations: Mapping[str, str], name: str) -> str | None:
    """The value of an annotation as werf finds it; None without it.

    Its patterns have dots that aren't escaped. Of several that match, the order of a map decides.
    """
    pattern = re.compile(name)
    found = [value for key, value in annotations.items() if pattern.fullmatch(key)]
    return random.choice(found).strip() if found else None  # noqa: S311 - no secret


class _Loader(_Base):
    """YAML as Go's library reads it: no dates, no numbers of base 60; `1e3` is a number."""


_TAG = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, form) for tag, form in forms if tag in (f"{_TAG}bool", f"{_TAG}null", f"{_TAG}merge")
    ]
    for first, forms in _Base.yaml_implicit_resolvers.items()
}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)$")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$")
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = loader.construct_yaml_float(node)
    return int(value) if value.is_integer() else value


_Loader.add_constructor(f"{_TAG}float", _number)


def parse_each(texts: Iterable[str]) -> list[list[Object]]:
    """Read several texts, each YAML with any number of objects.

    Raises:
        WerfError: one can't be read.
    """
    try:
        # By way of JSON, whose keys are texts, and in which nothing is there twice.
        return [
            [json.loads(json.dumps(body)) for body in yaml.load_all(text, _Loader) if body]
            for text in texts
        ]
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise WerfError(f"parse manifests: {error}") from None


def core(kind: str, name: str) -> Object:
    """An object of the core API without content."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def keyed(objects: Iterable[Object], namespace: str) -> dict[Key, Object]:
    """Objects by what identifies them in a release."""
    result = {}
    for body in objects:
        where = body["metadata"].get("namespace", "")
        where = "" if where == namespace else where
        result[(body["kind"], where, body["metadata"]["name"])] = body
    return result


def human(key: Key) -> str:
    """An object as werf names it: ``ConfigMap/name``, with the namespace if it is another one."""
    return "/".join(part for part in key if part)


def titled(key: Key) -> str:
    """An object as werf names it in plans: ``ConfigMap/name (namespace=other)``."""
    kind, namespace, name = key
    return f"{kind}/{name}" + (f" (namespace={namespace})" if namespace else "")


def dump(value: Any) -> str:
    """YAML of what came from JSON: sorted keys, and the style of Go's library, which werf uses.

    Two different values never give the same text.
    """
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in sorted(value.items()):
            first, *rest = _lines(inner)
            below = isinstance(inner, dict | list) and inner
            yield f"{_scalar(name)}:" if below else f"{_scalar(name)}: {first}"
            indent = "" if isinstance(inner, list) else "  "
            yield from (indent + line if line else "" for line in [first, *rest][not below :])
    elif isinstance(value, list) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from ("  " + line if line else "" for line in rest)
    elif isinstance(value, str) and _BLOCK.fullmatch(value):
        text = value.rstrip("\n")
        after = len(value) - len(text)
        yield "|-" if after == 0 else "|" if after == 1 else "|+"
        yield from f"{text}{chr(10) * max(0, after - 1)}".split("\n")
    else:
        yield _scalar(value)


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and not _OTHER.fullmatch(value)
    if plain:
        return str(value)
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def finished(body: Mapping[str, Any], *, hook: bool = False) -> bool | None:
    """Whether a live object is as far as a deploy waits for it; None if it never will be."""
    kind, status = body["kind"], body.get("status", {})
    true = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
    if status.get("phase" if kind == "Pod" else "") == "Failed" or (
        kind == "Job" and "Failed" in true
    ):
        return None
    match kind:
        case "Pod":
            return status.get("phase") == "Succeeded" or ("Ready" in true and not hook)
        case "Job":
            return "Complete" in true
        case "CustomResourceDefinition":
            return "Established" in true
        case "Deployment" | "StatefulSet" | "DaemonSet":
            return _rolled_out(body)
        case _:
            return True


def _rolled_out(body: Mapping[str, Any]) -> bool:
    status = body.get("status", {})
    wanted, counted = {
        "Deployment": (body["spec"].get("replicas"), ("updatedReplicas", "availableReplicas")),
        "StatefulSet": (body["spec"].get("replicas"), ("readyReplicas",)),
        "DaemonSet": (
            status.get("desiredNumberScheduled"),
            ("updatedNumberScheduled", "numberAvailable"),
        ),
    }[body["kind"]]
    seen = status.get("observedGeneration", 0) >= body["metadata"].get("generation", 0)
    return seen and all(status.get(count, 0) >= (wanted or 0) for count in counted)
