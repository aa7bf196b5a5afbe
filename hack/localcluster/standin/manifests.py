"""Manifests as objects, and the labels and annotations that werf adds to them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from . import tools
from .served import SERVER

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


def parse(manifest: str) -> list[Object]:
    """Read YAML with one or many objects. kubectl does it: Python's library has no YAML."""
    if not any(line.strip("-# \t") for line in manifest.splitlines() if not line.startswith("#")):
        return []
    read = tools.run(
        "kubectl",
        *("patch", "--local", "--type", "merge", "--patch", "{}", "-o", "json", "-f", "-"),
        stdin=manifest,
    )
    return list(tools.json_stream(read.checked("parse manifests")))


def parse_each(texts: Iterable[str]) -> list[list[Object]]:
    """Read several texts in one go: before each of them stands a mark.

    What was read before is kept beside the server's socket: a version is planned, checked and
    deployed by half a dozen commands, and to start kubectl for each takes longer than all the rest.
    """
    given = list(texts)
    kept = {text: _kept(text) for text in given}
    found = {text: json.loads(path.read_text()) for text, path in kept.items() if path.is_file()}
    missing = [text for text in kept if text not in found]
    for text, bodies in zip(missing, _parse_marked(missing), strict=True):
        found[text] = bodies
        draft = kept[text].with_name(f"{os.getpid()}")
        if draft.parent.is_dir():
            draft.write_text(json.dumps(bodies))
            draft.replace(kept[text])
    return [deepcopy(found[text]) for text in given]


def parsed_folder(server: str | os.PathLike[str]) -> Path:
    """Where what was read is kept, by a server's socket."""
    return Path(f"{os.fspath(server)}.parsed")


def _kept(text: str) -> Path:
    """The file of what was read of a text; without a server it is never there."""
    server = os.environ.get(SERVER)
    folder = parsed_folder(server) if server else Path(os.devnull)
    return folder / hashlib.sha256(text.encode()).hexdigest()


def _parse_marked(texts: list[str]) -> list[list[Object]]:
    mark, marked = "standin-source", []
    for text in texts:  # kubectl 1.29 reads all as JSON if the first one is
        marked.append(f"apiVersion: {mark}\nkind: {mark}\nmetadata: {{name: {mark}}}")
        marked += [text] if text else []
    result: list[list[Object]] = []
    for body in parse("\n---\n".join(marked)) if marked else []:
        if body["kind"] == mark:
            result.append([])
        else:
            result[-1].append(body)
    return result


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
