"""The wanted content of a copy, made from a rule and its source or template.

Where it doesn't depend on the namespace, one Content serves all targets: only the place and the
seal differ from copy to copy.

An object that isn't ours may stay where it has this content. The API server returns another form
than was sent: it adds defaults, drops empty fields and rewrites quantities. Both sides are
therefore normalised and compared whole: an additional field can narrow a NetworkPolicy or widen a
binding, so "has all that is wanted" isn't enough. Only labels, annotations and the lists of a
ServiceAccount may have additional items: these restrict nothing. The fields that the API server
defaults are known for the built-in kinds that are listed here (source: pkg/apis/*/v1/defaults.go of
Kubernetes 1.34). A custom resource has to be written with its defaults to count as equal.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import KeyTransform, MetadataTransform, Transform
from copyrator.api.schema import NOT_WHOLE, map_in
from copyrator.api.selectors import Globs
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.marks import EVERY_MARK, OPERATOR_MARKS, OUR_KEYS, Marks
from copyrator.copies.targets.ownership import (
    Shape,
    is_ours_enough,
    is_ours_exactly,
    reference_marks,
)
from copyrator.copies.targets.records import Extras

EXACT_KINDS: Final = frozenset({"ConfigMap", "Secret"})
"""Kinds of which we own the whole content, and that are written without being read."""

_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata", "status"})

_SERVER_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    # A legacy token of the source's namespace means nothing elsewhere.
    "ServiceAccount": frozenset({"secrets"}),
}


@dataclass(slots=True, eq=False)
class Content:
    """A wanted object without its place."""

    api_version: str
    kind: str
    payload: Mapping[str, Any]
    """The top-level fields other than metadata and status."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Without the seal, which differs from place to place."""
    digest: bytes
    _known_right: Shape | None = field(default=None, repr=False)
    """The last shape that was found right: usually the same for all copies."""

    @property
    def exact(self) -> bool:
        """Whether we own the whole copy, so that it can be replaced unread."""
        return self.kind in EXACT_KINDS

    def is_undisturbed(self, shape: Shape) -> bool:
        """Whether nothing that we wrote was changed (ownership.py)."""
        if shape is self._known_right:
            return True
        check = is_ours_exactly if self.exact else is_ours_enough
        if not (
            all(shape.owns_label(key) for key in self.labels)
            and all(shape.owns_annotation(key) for key in self.annotations)
            and shape.owns_annotation(names.ANN_HASH)
            and check(self.payload, shape)
        ):
            return False
        self._known_right = shape
        return True

    def is_held_by(self, live: Mapping[str, Any]) -> bool:
        """Whether a whole object has this content, whoever wrote it.

        Objects of kinds of which we don't own everything may have more.
        """
        metadata = live.get("metadata") or {}
        if not (
            _contains(metadata.get("labels"), self.labels)
            and _contains(metadata.get("annotations"), self.annotations)
        ):
            return False
        found = payload_of(live)
        if not self.exact:
            return _contains(found, self.payload)
        fields = found.keys() | self.payload.keys()
        return all((found.get(name) or None) == (self.payload.get(name) or None) for name in fields)

    def outline(self) -> Content:
        """The same without values: what `is_undisturbed` needs, and no more."""
        return Content(
            api_version=self.api_version,
            kind=self.kind,
            payload=_outlined(self.payload),
            labels=dict.fromkeys(self.labels, ""),
            annotations=dict.fromkeys(self.annotations, ""),
            digest=b"",
        )

    def has_outline(self, outline: Content) -> bool:
        """Whether `outline` would return an equal one."""
        return (
            self.labels.keys() == outline.labels.keys()
            and self.annotations.keys() == outline.annotations.keys()
            and _outlined(self.payload) == outline.payload
        )


def _outlined(value: Any) -> Any:
    """The fields and keys of a payload; of a text, only whether it is empty."""
    if isinstance(value, Mapping):
        return {key: _outlined(below) for key, below in value.items()}
    if isinstance(value, list):
        return ["…"] if value else []
    return "…" if isinstance(value, str) and value else value


def payload_of(live: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a live object that may be content: all but metadata and status."""
    return {name: value for name, value in live.items() if name not in _NOT_CONTENT}


def _contains(found: Any, wanted: Any) -> bool:
    """Whether a value has all that is wanted; maps may have more, lists may not."""
    if wanted in (None, "", [], {}):
        return True
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            _contains(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(map(_contains, found, wanted))
        )
    return bool(found == wanted)


MAX_GLOB_WORK: Final = 400_000_000
"""Characters of a source's keys times characters of the patterns that choose among them: some 40 ms
for one copy."""

DATA_FIELDS = ("data", "binaryData")


class TransformError(Exception):
    """A transform that doesn't fit this source; the message is for the rule's author."""


def transform_data(content: Mapping[str, Any], keys: KeyTransform) -> dict[str, Any]:
    """The content of a copy; ``content`` isn't changed.

    ``data`` and ``binaryData`` share one space of names, as in the API server.

    Raises:
        TransformError: two keys would have one name, or they are too many for so many globs.
    """
    if not (keys.include or keys.exclude or keys.rename):
        return dict(content)
    check_work(
        [key for part in DATA_FIELDS for key in content.get(part) or ()],
        keys.include,
        keys.exclude,
    )
    result = dict(content)
    taken: dict[str, str] = {}
    for part in DATA_FIELDS:
        if part not in content:
            continue
        kept: dict[str, Any] = {}
        for key, value in (content[part] or {}).items():
            if not keeps(keys, key):
                continue
            name = keys.rename.get(key, key)
            if name in taken:
                raise TransformError(
                    f"the keys {taken[name]!r} and {key!r} would both be named {name!r}; "
                    "leave one out in spec.transform.keys or rename it"
                )
            taken[name] = key
            kept[name] = value
        result[part] = kept
    return result


def transform_type(content: dict[str, Any], kind: str, transform: Transform) -> dict[str, Any]:
    """The content with the wanted type of a Secret.

    Raises:
        TransformError: the type requires keys that the copy hasn't got, so that the API server
            would refuse each.
    """
    keys = transform.keys
    if kind != "Secret" or not (transform.type or keys.include or keys.exclude or keys.rename):
        return content
    if transform.type is not None:
        content["type"] = transform.type
    required = _REQUIRED_KEYS.get(str(content.get("type")), ())
    missing = [key for key in required if key not in (content.get("data") or {})]
    if not missing or (content.get("type") == _BASIC_AUTH and len(missing) < len(required)):
        return content
    some = " or ".join if content.get("type") == _BASIC_AUTH else " and ".join
    raise TransformError(
        f"a Secret of the type {content['type']} must have {some(missing)}; set "
        "spec.transform.type: Opaque, or copy the keys, too"
    )


_BASIC_AUTH: Final = "kubernetes.io/basic-auth"
_REQUIRED_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    _BASIC_AUTH: ("username", "password"),
}
"""By a Secret's type, the keys that the API server requires; of basic-auth one of them.

Source: ValidateSecret in pkg/apis/core/validation/validation.go.
"""


def keeps(keys: KeyTransform, key: str) -> bool:
    """Whether a key of the source is copied."""
    included = not keys.include or keys.include.matches(key)
    return included and not keys.exclude.matches(key)


def check_work(texts: Collection[str], *choices: Globs) -> None:
    """Refuse what would block the event loop: very many keys times very long lists of patterns.

    Raises:
        TransformError: they are too many.
    """
    if sum(globs.cost(texts) for globs in choices) > MAX_GLOB_WORK:
        raise TransformError(
            f"the source has {len(texts)} keys, too many for so many patterns in spec.transform; "
            "use fewer or shorter patterns"
        )


def copied_labels(
    found: Mapping[str, str] | None, transform: Transform, *, marks: Marks = EVERY_MARK
) -> dict[str, str]:
    """The labels of a copy, our own mark included; without the ``marks`` of other owners."""
    labels = _transformed(found, transform.labels, marks)
    labels[names.LABEL_MANAGED_BY] = names.MANAGED_BY
    return labels


def copied_annotations(
    found: Mapping[str, str] | None,
    transform: Transform,
    *,
    rule: str,
    origin: str | None,
    marks: Marks = EVERY_MARK,
) -> dict[str, str]:
    """The annotations of a copy with our own marks, all but the content hash.

    ``rule`` and ``origin`` are ``namespace/name``; a template has no origin.
    """
    annotations = _transformed(found, transform.annotations, marks)
    annotations[names.ANN_RULE] = rule
    if origin is not None:
        annotations[names.ANN_SOURCE] = origin
    return annotations


def _transformed(
    found: Mapping[str, str] | None, transform: MetadataTransform, marks: Marks
) -> dict[str, str]:
    found = found or {}
    check_work(found, transform.remove)
    kept = {
        key: value
        for key, value in found.items()
        if not marks.has(key) and not transform.remove.matches(key)
    }
    return kept | dict(transform.add)


def copied_content(
    source: Mapping[str, Any], transform: Transform, *, rule: str, sealer: Sealer
) -> Content:
    """The content of the copies of a source.

    Raises:
        TransformError: the transform doesn't fit the source.
    """
    metadata = source["metadata"]
    kind = str(source["kind"])
    hidden = _NOT_CONTENT | _SERVER_FIELDS.get(kind, frozenset())
    payload = {key: value for key, value in source.items() if key not in hidden}
    return _seal(
        sealer,
        api_version=str(source["apiVersion"]),
        kind=kind,
        payload=transform_type(transform_data(payload, transform.keys), kind, transform),
        labels=copied_labels(metadata.get("labels"), transform),
        annotations=copied_annotations(
            metadata.get("annotations"),
            transform,
            rule=rule,
            origin=f"{metadata['namespace']}/{metadata['name']}",
        ),
    )


def rendered_content(
    rendered: Mapping[str, Any], transform: Transform, *, rule: str, sealer: Sealer
) -> Content:
    """The content of a copy that a template rendered for one namespace.

    Marks of other owners in it are its author's, as those in ``transform.labels.add``.
    """
    metadata = rendered.get("metadata") or {}
    payload = {key: value for key, value in rendered.items() if key not in _NOT_CONTENT}
    kind = str(rendered["kind"])
    return _seal(
        sealer,
        api_version=str(rendered["apiVersion"]),
        kind=kind,
        payload=_as_read(kind, payload),
        labels=copied_labels(metadata.get("labels"), transform, marks=OPERATOR_MARKS),
        annotations=copied_annotations(
            metadata.get("annotations"), transform, rule=rule, origin=None, marks=OPERATOR_MARKS
        ),
    )


def _as_read(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """A Secret's ``stringData`` in the form that the API server stores and returns."""
    if kind != "Secret":
        return payload
    texts = payload.pop("stringData", None) or {}
    if texts:
        encoded = {k: base64.b64encode(str(v).encode()).decode() for k, v in texts.items()}
        payload["data"] = {**(payload.get("data") or {}), **encoded}
    payload.setdefault("type", "Opaque")
    return payload


def _seal(sealer: Sealer, **parts: Any) -> Content:
    parts["annotations"] |= reference_marks(parts["payload"])
    return Content(**parts, digest=sealer.digest(parts))


def new_object(content: Content, key: CopyKey, rule: str, sealer: Sealer) -> dict[str, Any]:
    """The body that creates the copy."""
    seal = sealer.seal(content.digest, key.kind, key.namespace, key.name, rule)
    return {
        "apiVersion": content.api_version,
        "kind": content.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": dict(content.labels),
            "annotations": {**content.annotations, names.ANN_HASH: seal},
        },
        **content.payload,
    }


def carry_on(
    body: dict[str, Any], extras: Extras, *, uid: str, resource_version: str
) -> dict[str, Any]:
    """Turn a new object's body into one that replaces the live object, keeping others' metadata."""
    metadata = body["metadata"]
    metadata["uid"] = uid
    metadata["resourceVersion"] = resource_version
    metadata["labels"] = {**extras.labels, **metadata["labels"]}
    metadata["annotations"] = {**extras.annotations, **metadata["annotations"]}
    if extras.finalizers:
        metadata["finalizers"] = list(extras.finalizers)
    if extras.owners:
        metadata["ownerReferences"] = [dict(owner) for owner in extras.owners]
    return body


COMPARED_VALUES: Final = 20_000
"""Values of an existing object in a copy's place and of the rule's desired one, together, up to
which they are compared (ConfigMaps and Secrets always are): 20 ms."""

_Payload = dict[str, Any]
_Form = Callable[[_Payload], _Payload]

_RBAC: Final = "rbac.authorization.k8s.io"


def differences(content: Content, live: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of a whole object that aren't as wanted; none: it has the wanted content.

    Args:
        content: what the rule wants. Our own marks don't count.
        live: as the API server returned it; any client may have written it.

    Returns:
        Names of top-level fields, ``labels`` and ``annotations`` in order; never a value.
    """
    metadata = live.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        return ("deletionTimestamp",)
    if metadata.get(NOT_WHOLE):
        return ("everything (it is nested too deeply to be compared)",)
    found, wanted = payload_of(live), dict(content.payload)
    if not content.exact and _is_larger({"found": found, "wanted": wanted}, COMPARED_VALUES):
        return ("everything (it is too large to be compared)",)
    differing = [
        part
        for part, mine in (("annotations", content.annotations), ("labels", content.labels))
        if not _has(metadata.get(part), mine)
    ]
    if content.exact:
        have, want = _without_empty(found), _without_empty(wanted)
    else:
        group = content.api_version.rpartition("/")[0]
        form: _Form = _FORMS.get((group, content.kind), _dropped)
        have, want = form(found), form(wanted)
        if (group, content.kind) == ("", "ServiceAccount"):
            have = _without_others(have, want)
    fields = have.keys() | want.keys()
    return (*differing, *sorted(name for name in fields if have.get(name) != want.get(name)))


def _has(found: Any, wanted: Mapping[str, str]) -> bool:
    """Whether all labels or annotations exist, except our marks."""
    there = found or {}
    return all(there.get(key) == value for key, value in wanted.items() if key not in OUR_KEYS)


def _is_larger(value: Any, most: int) -> bool:
    """Whether it has more values than ``most``; reads no more than that."""
    pending, count = [value], 0
    while pending:
        one = pending.pop()
        inside: Sequence[Any] = ()
        if isinstance(one, Mapping):
            inside = list(one.values()) if len(one) <= most else ()
            count += len(one)
        elif isinstance(one, list):
            inside = one if len(one) <= most else ()
            count += len(one)
        if count > most:
            return True
        pending += inside
    return False


# --- normalisation --------------------------------------------------------------------------------

_EMPTIED: Final = frozenset(
    {"default", "defaultRequest", "hard", "matchLabels", "max", "maxLimitRequestRatio", "min"}
)
"""Maps that mean the same empty as absent. Elsewhere ``{}`` may be "all" (a namespaceSelector)."""


def _without_empty(payload: _Payload) -> _Payload:
    """A ConfigMap or Secret without its empty fields, such as ``immutable: false``."""
    return {name: value for name, value in payload.items() if value}


def _dropped(payload: Mapping[str, Any]) -> _Payload:
    """Without null, empty strings and empty lists, which mean the same as an absent field."""
    return {
        key: value
        for key, value in ((key, _bare(value)) for key, value in payload.items())
        if value not in (None, "", []) and not (key in _EMPTIED and value == {})
    }


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _dropped(value)
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _binding(payload: _Payload) -> _Payload:
    """A RoleBinding: its subjects are a set, and groups and users belong to the RBAC group."""
    bare = _dropped(payload)
    if isinstance(role := bare.get("roleRef"), Mapping):
        bare["roleRef"] = {"apiGroup": _RBAC, **role}
    if subjects := _maps(bare.get("subjects")):
        named = [
            {"apiGroup": _RBAC, **one} if one.get("kind") in ("User", "Group") else one
            for one in subjects
        ]
        bare["subjects"] = sorted(named, key=_order)
    return bare


def _network_policy(payload: _Payload) -> _Payload:
    bare = _dropped(payload)
    spec = bare.get("spec")
    if not isinstance(spec, Mapping):
        return bare
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    if isinstance(types, list):
        types = sorted(types, key=_order)
    changed = {"podSelector": {}, **spec, "policyTypes": types}
    for way in ("ingress", "egress"):
        if rules := _maps(spec.get(way)):
            changed[way] = [_with_protocols(rule) for rule in rules]
    return {**bare, "spec": changed}


def _with_protocols(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    ports = _maps(rule.get("ports"))
    return {**rule, "ports": [{"protocol": "TCP", **port} for port in ports]} if ports else rule


def _resource_quota(payload: _Payload) -> _Payload:
    bare = _dropped(payload)
    spec = map_in(bare, "spec")
    if "hard" in spec:
        bare["spec"] = {**spec, "hard": _quantities(spec["hard"])}
    return bare


def _limit_range(payload: _Payload) -> _Payload:
    bare = _dropped(payload)
    spec = map_in(bare, "spec")
    if limits := _maps(spec.get("limits")):
        bare["spec"] = {**spec, "limits": [_limit(one) for one in limits]}
    return bare


def _limit(limit: Mapping[str, Any]) -> dict[str, Any]:
    """One item of a LimitRange; for a container the defaults follow from its other fields."""
    found = {
        key: _quantities(value) if isinstance(value, Mapping) else value
        for key, value in limit.items()
    }
    if found.get("type") == "Container":
        default = {**map_in(found, "max"), **map_in(found, "default")}
        request = {**map_in(found, "min"), **default, **map_in(found, "defaultRequest")}
        found |= {"default": default, "defaultRequest": request}
    return found


def _without_others(have: _Payload, want: _Payload) -> _Payload:
    """A ServiceAccount without the tokens and pull secrets that others added."""
    kept = dict(have)
    for name in ("secrets", "imagePullSecrets"):
        wanted = want.get(name)
        if isinstance(have.get(name), list):
            mine = wanted if isinstance(wanted, list) else []
            kept[name] = [item for item in mine if item in have[name]]
            if not mine:
                del kept[name]
    return kept


def _order(value: Any) -> str:
    """A sort key, to compare lists without their order."""
    return repr(sorted(value.items())) if isinstance(value, Mapping) else repr(value)


def _maps(value: Any) -> list[Mapping[str, Any]]:
    """A list of maps; empty where it is anything else."""
    are_maps = isinstance(value, list) and all(isinstance(item, Mapping) for item in value)
    return value if are_maps else []


_FORMS: Final[Mapping[tuple[str, str], _Form]] = {
    (_RBAC, "RoleBinding"): _binding,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("", "ResourceQuota"): _resource_quota,
    ("", "LimitRange"): _limit_range,
}

# --- quantities -----------------------------------------------------------------------------------

_QUANTITY: Final = re.compile(
    r"([+-]?[0-9.]{1,64})(?:[eE]([+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?"
)
_SUFFIXES: Final = {
    **{unit: Decimal(10) ** (3 * power) for power, unit in enumerate("num_kMGTPE", -3)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


def _quantities(value: Any) -> Any:
    """``4``, ``"4"`` and ``"4000m"`` are the same to the API server, which returns one of them."""
    if not isinstance(value, Mapping):
        return value
    return {key: _quantity(amount) for key, amount in value.items()}


def _quantity(amount: Any) -> Any:
    match = _QUANTITY.fullmatch(str(amount))
    if match is None:
        return amount
    try:
        number = Decimal(match[1]).scaleb(int(match[2] or 0))
        return number * _SUFFIXES.get(match[3] or "", Decimal(1))
    except ArithmeticError:
        return amount
