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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from copyrator.api import names
from copyrator.api.rule_spec import Transform
from copyrator.api.schema import NOT_WHOLE, map_in
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.ownership import (
    Shape,
    is_ours_enough,
    is_ours_exactly,
    reference_marks,
)
from copyrator.copies.targets.records import CopyRecord, Extras
from copyrator.copies.targets.transform import (
    OPERATOR_MARKS,
    OUR_KEYS,
    copied_annotations,
    copied_labels,
    transform_data,
    transform_type,
)

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

    def is_right(self, record: CopyRecord) -> bool:
        """Whether a copy has this content and nothing else that matters."""
        return record.digest == self.digest and self.is_undisturbed(record.shape)

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


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a copy; ``resource`` is the kind's key as in CopyKey."""

    resource: str
    namespace: str
    name: str


def new_object(content: Content, place: Place, rule: str, sealer: Sealer) -> dict[str, Any]:
    """The body that creates the copy."""
    seal = sealer.seal(content.digest, place.resource, place.namespace, place.name, rule)
    return {
        "apiVersion": content.api_version,
        "kind": content.kind,
        "metadata": {
            "name": place.name,
            "namespace": place.namespace,
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
