"""What `copyrator validate` finds in rules and Bundles, without a cluster.

Fields are checked by the CRD's schema, and in templates by Kubernetes' kinds. Of structural schemas
only the keywords that our CRDs use. CEL rules aren't evaluated: the operator's own parsers, which
are called too, check all of them. In templates the types and names of fields and of variables are
checked without rendering; nothing is said of custom resources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import jinja2
import msgspec
from jinja2 import meta, nodes
from jsonschema import Draft4Validator, ValidationError
from jsonschema.validators import extend

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.rule_spec import RuleSpec, Targets, parse_rule, path_of
from copyrator.api.schema import InvalidSpec, SpecError
from copyrator.api.text import meant, member, truncate
from copyrator.api.verify import VerifyEntry
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.bundles.features.signatures.policy import CONFIG_MAP, POLICY_KEY, policy_in
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.restrictions import remedy, restrict_spec
from copyrator.cli.offline.install import schemas
from copyrator.cli.offline.manifests import Manifest, Step
from copyrator.copies.template.compiling import ENVIRONMENT, compile_text, whole_expression
from copyrator.copies.template.rendering import (
    ANY,
    SOURCES,
    UNKNOWN_KIND,
    field_type,
    fields_of,
    item_type,
    namespace_context,
    rule_texts,
    source_context,
    type_of,
)
from copyrator.copies.template.scope import TemplateError, is_jinja
from copyrator.kube.resources import WELL_KNOWN
from copyrator.signatures.model import TrustError
from copyrator.signatures.notation import read_subjects

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A field's fault and the remedy."""

    path: tuple[Step, ...]
    message: str

    @property
    def field(self) -> str:
        """The path in the usual form: ``spec.valuesFrom[0].kind``."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else member(step)
        return text.lstrip(".")


_FAULTS: Final = {
    "type": "must be {article} {limit}, not {value}",
    "anyOf": "must be a number or a string",
    "enum": "{value} isn't one of {limit}",
    "minLength": "must not be empty",
    "maxLength": "must have at most {limit} characters",
    "pattern": "{value} doesn't match {limit}",
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "maxItems": "must have at most {limit} items",
    "minItems": "must have at least {limit} items",
    **dict.fromkeys(("items", "properties", "required"), "{message}"),
    "maxProperties": "must have at most {limit} entries",
}
"""What is said of each keyword that our CRDs use, in the order in which they are checked."""


def problems(value: Any, kind: str) -> Iterable[Problem]:
    """All violations of the CRD's schema; of a text or number the first."""
    found: dict[Any, Problem] = {}
    for error in _validator(kind).iter_errors(value):
        path, limit = tuple(error.path), error.validator_value
        if error.instance is None:
            continue  # the API server drops it
        value = truncate(repr(error.instance), 60)
        if error.validator == "pattern" and (only := characters(limit)):
            said = f"{value} may have only {only}"
        else:
            said = _FAULTS[str(error.validator)].format(
                article="an" if str(limit)[0] in "aeiou" else "a",
                limit=", ".join(map(str, limit)) if isinstance(limit, list) else limit,
                value=value,
                message=error.message,
            )
        if error.validator == "enum":
            said += meant(str(error.instance), limit)
        several = error.validator in ("required", "maxProperties")
        found.setdefault((path, said) if several else path, Problem(path, said))
    return found.values()


_RANGES: Final = {"a-z": "lower-case letters", "A-Z": "upper-case letters", "0-9": "digits"}
_WILD: Final = "the wildcards '*' (any characters) and '?' (one character)"


def characters(pattern: str) -> str:
    """What a regular expression allows, if it is only a list of characters; else empty."""
    listed = re.fullmatch(r"\^\[([^\[\]\\]+)\][+*]\$", pattern)
    if listed is None:
        return ""
    parts = re.findall("a-z|A-Z|0-9|.", listed[1])
    found = [_RANGES.get(one, f"'{one}'") for one in parts if one not in "*?"]
    *front, last = [*found, _WILD] if "*" in parts and "?" in parts else found
    return f"{', '.join(front)} and {last}" if front else last


@cache
def _validator(kind: str) -> Draft4Validator:
    changed = {"properties": _properties, "required": _required}
    made: Draft4Validator = extend(Draft4Validator, changed)(_json_schema(schemas()[kind]))
    return made


def _properties(
    validator: Draft4Validator, known: Schema, value: Any, schema: Schema
) -> Iterator[ValidationError]:
    for name, item in value.items() if isinstance(value, dict) else ():
        inner = known.get(name, schema.get("rest"))
        if inner is None:
            others = f"; known fields: {', '.join(known)}" if known else "; remove it"
            yield ValidationError(f"is an unknown field{meant(name, known) or others}", path=[name])
        else:
            yield from validator.descend(item, inner, path=name)


def _required(
    _: Draft4Validator, fields: Sequence[str], value: Any, __: Schema
) -> Iterator[ValidationError]:
    for name in fields if isinstance(value, dict) else ():
        if value.get(name) is None:
            yield ValidationError(f"{name} is required")


def _json_schema(schema: Schema, path: tuple[str, ...] = ()) -> Schema:
    """``rest`` is for fields that aren't in ``properties``; where it isn't, they are unknown."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    made = {**schema}
    if schema.get("type") == "object":
        known = schema.get("properties", {})
        made["properties"] = {name: _json_schema(known[name], (*path, name)) for name in known}
    if "items" in schema:
        made["items"] = _json_schema(schema["items"], (*path, "items"))
    if "additionalProperties" in schema:
        made["rest"] = _json_schema(schema["additionalProperties"], (*path, "*"))
    elif schema.get("x-kubernetes-preserve-unknown-fields") or path == ("metadata",):
        made["rest"] = {}  # metadata is the API server's own, of which CRDs only limit the name
    return {word: made[word] for word in (*_FAULTS, "rest") if word in made}


_LITERALS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "quantity": (str, int, float),
    "int-or-string": (int, str),
}
_NOUNS: Final = {
    "integer": "an integer",
    "boolean": "a boolean",
    "int-or-string": "an integer or a string",
    "quantity": "a quantity",
    "number": "a number",
    "string": "a string",
}
_FILTERS: Final = {"integer": "number", "number": "number", "boolean": "bool"}
"""The filter that makes what a field of this type wants."""

_TEXT, _NUMBER, _BOOLEAN = "string", "number", "boolean"
_MADE_BY: Final = {
    **dict.fromkeys(("int", "float", "number", "length", "count", "round", "abs"), _NUMBER),
    "bool": _BOOLEAN,
    **dict.fromkeys(("lower", "upper", "title", "capitalize", "trim", "replace", "join"), _TEXT),
    **dict.fromkeys(("string", "b64encode", "to_json", "to_yaml", "tojson", "format"), _TEXT),
}
"""What filters make, where that doesn't depend on their input."""


def _of_body(template: Mapping[str, Any], *, unknown: bool) -> Iterator[Problem]:
    """Values that the API server would refuse for their type.

    ``unknown``: instead, fields that it would drop, unless it is of a newer version.
    """
    kind = type_of(template.get("apiVersion"), template.get("kind"))
    found = _walk(template, kind, ("spec", "template"))
    return (problem for problem, is_unknown in found if is_unknown is unknown)


def _walk(value: Any, wanted: str, path: tuple[Step, ...]) -> Iterator[tuple[Problem, bool]]:
    """All problems, and of each whether it is an unknown field."""
    if isinstance(value, Mapping):
        if wanted.startswith("[") or wanted in _LITERALS:
            yield Problem(path, f"must be {_noun(wanted)}, not a map"), False
            return
        for key, item in value.items():
            name = str(key)
            below = field_type(wanted, name)
            if below is not None:
                yield from _walk(item, below, (*path, name))
            elif not is_jinja(name):
                advice = meant(name, fields_of(wanted) or {})
                text = f"the API server drops a field of this name{advice}"
                yield Problem((*path, name), text), True
    elif isinstance(value, list):
        if not (wanted.startswith("[") or wanted in (ANY, UNKNOWN_KIND)):
            yield Problem(path, f"must be {_noun(wanted)}, not a list"), False
            return
        for index, item in enumerate(value):
            yield from _walk(item, item_type(wanted), (*path, index))
    elif value is not None and (said := _of_scalar(value, wanted)):
        yield Problem(path, said), False


def _noun(wanted: str) -> str:
    return _NOUNS.get(wanted) or ("a list" if wanted.startswith("[") else "a map")


def _of_scalar(value: Any, wanted: str) -> str | None:
    """What is wrong with a text, number or boolean."""
    if wanted in (ANY, UNKNOWN_KIND):
        return None
    if isinstance(value, str) and is_jinja(value):
        return _of_text(value, wanted)
    if wanted not in _LITERALS:
        return f"must be {_noun(wanted)}, not {value!r}"
    right = isinstance(value, _LITERALS[wanted])
    if right and isinstance(value, bool) == (wanted == "boolean"):
        return None
    if isinstance(value, str):
        is_quoted = value in ("true", "false") or value.lstrip("-").isdigit()
        remedy = "; remove the quotes" if wanted in _FILTERS and is_quoted else ""
    else:
        remedy = "; put it in quotes" if wanted == "string" else ""
    return f"must be {_noun(wanted)}, not {value!r:.60}{remedy}"


def _of_text(text: str, wanted: str) -> str | None:
    """What is wrong with a text with Jinja2 in it."""
    filter_ = _FILTERS.get(wanted)
    if filter_ is None:
        return None
    try:
        tree = ENVIRONMENT.parse(text)
    except (jinja2.TemplateError, ValueError, RecursionError):
        return None  # said of the text itself
    whole = whole_expression(tree)
    if whole is None:
        return f'must be {_noun(wanted)}; make all of it one expression: "{{{{ … | {filter_} }}}}"'
    made = _made(whole)
    if made is None or made == ("boolean" if wanted == "boolean" else "number"):
        return None
    return f"must be {_noun(wanted)}, and the expression makes {_NOUNS[made]}; add | {filter_}"


def _made(node: nodes.Expr) -> str | None:
    """The type of what an expression makes; None: not known."""
    made = None
    match node:
        case nodes.Const(value=bool()) | nodes.Compare() | nodes.Not() | nodes.Test():
            made = _BOOLEAN
        case nodes.Const(value=str()) | nodes.Concat():
            made = _TEXT
        case nodes.Const(value=int() | float()):
            made = _NUMBER
        case nodes.Filter(name="default" | "d", node=nodes.Expr() as inner, args=[other, *_]):
            made = _common(inner, other)
        case nodes.Filter():
            made = _MADE_BY.get(node.name)
        case nodes.CondExpr(expr1=first, expr2=nodes.Expr() as second):
            made = _common(first, second)
        case nodes.Getattr() | nodes.Getitem() if _is_of_target(node):
            made = _TEXT
    return made


def _common(one: nodes.Expr, other: nodes.Expr) -> str | None:
    made = _made(one)
    return made if made == _made(other) else None


def _is_of_target(node: nodes.Expr) -> bool:
    """Whether it is a name, label or annotation: ``namespace.labels['x']``."""
    fields = 0
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        node, fields = node.node, fields + 1
    return isinstance(node, nodes.Name) and node.name in ("namespace", "rule") and fields > 0


_NAMESPACE: Final = tuple(namespace_context("", {}, {}))
_SOURCE: Final = tuple(source_context({}, ""))
_RULE: Final = ("name", "namespace")

OF_TEMPLATE: Final[Mapping[str, Sequence[str]]] = {"namespace": _NAMESPACE, "rule": _RULE}
"""The variables of spec.template and their fields."""
OF_NAME: Final[Mapping[str, Sequence[str]]] = {**OF_TEMPLATE, "source": _SOURCE}
"""Those of spec.transform.name."""


def of_template(rule: RuleSpec) -> Mapping[str, Sequence[str]]:
    """The variables of a rule's template and their fields."""
    if not rule.sources:
        return OF_TEMPLATE
    return {**OF_TEMPLATE, SOURCES: tuple(entry.alias for entry in rule.sources)}


def unknown_names(text: str, known: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is wrong with the names in a text that is valid Jinja2, with the remedy."""
    tree = ENVIRONMENT.parse(text)
    undeclared = meta.find_undeclared_variables(tree)
    for name in sorted(undeclared - known.keys() - ENVIRONMENT.globals.keys()):
        yield f"unknown variable {name}{_advice(name, list(known), 'variables')}"
    reads: list[nodes.Getattr | nodes.Getitem] = list(tree.find_all(nodes.Getattr))
    for found in [*reads, *tree.find_all(nodes.Getitem)]:
        owner, field = found.node, None
        if isinstance(found, nodes.Getattr):
            field = found.attr
        elif isinstance(found.arg, nodes.Const) and isinstance(found.arg.value, str):
            field = found.arg.value
        if not isinstance(owner, nodes.Name) or owner.name not in undeclared & known.keys():
            continue
        fields = known[owner.name]
        if field is not None and field not in fields:
            yield f"unknown field {owner.name}.{field}{_advice(field, fields, 'fields')}"


def _advice(word: str, known: Sequence[str], what: str) -> str:
    return meant(word, known) or f"; known {what}: {', '.join(known)}"


SYSTEM = ("kube-node-lease", "kube-public", "kube-system")
_LABEL = "kubernetes.io/metadata.name"


def warn_of_system_namespaces(targets: Targets) -> str:
    """The warning; empty where none is reached, or a pattern begins with ``kube``."""
    if any(pattern.startswith("kube") for pattern in targets.namespaces.patterns):
        return ""
    reached = [name for name in SYSTEM if targets.matches(name, {_LABEL: name})]
    if not reached:
        return ""
    return (
        f"the targets include {', '.join(reached)}; to leave them out, add kube-* to "
        "spec.targets.exclude"
    )


_VERSIONS = {
    names.RULE_KIND: names.RULE_API_VERSION,
    names.BUNDLE_KIND: names.BUNDLE_API_VERSION,
}
_STEP = re.compile(r"\[([0-9]+)\]|\['(.*?)'\]|((?:[^.\[\\]|\\.)+)")


class Finding(msgspec.Struct, frozen=True):
    """A problem and its position; as in ``-o json``."""

    file: str
    line: int
    kind: str
    name: str
    field: str
    message: str

    @classmethod
    def of(
        cls, manifest: Manifest, problem: Problem, path: Sequence[Step] | None = None
    ) -> Finding:
        """The problem of a manifest, at its own position or another one."""
        line = manifest.line(problem.path if path is None else path)
        return cls(
            manifest.source, line, manifest.kind, manifest.name, problem.field, problem.message
        )

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}: {self.kind} {self.name}: {field}{self.message}"


def check(manifest: Manifest) -> Iterator[Finding]:
    """The problems of one manifest; the parser's message only where the schema has none."""
    if _is_policy(manifest):
        for problem in _of_policy(manifest.body):
            yield Finding.of(manifest, problem)
        return
    said = manifest.body.get("apiVersion")
    if manifest.kind not in _VERSIONS:
        group = str(said).partition("/")[0]
        right = next(kind for kind, version in _VERSIONS.items() if version.startswith(f"{group}/"))
        text = f"{group} has no kind {manifest.kind or '(none)'}; did you mean {right}?"
        yield Finding.of(manifest, Problem(("kind",), text))
        return
    kinds = list(_misspelt_kinds(manifest.body))
    at = {problem.path for problem in kinds}
    violations = problems(manifest.body, manifest.kind)
    found = [*kinds, *(one for one in violations if one.path not in at)]
    if said != (wanted := _VERSIONS[manifest.kind]):
        found.insert(0, Problem(("apiVersion",), f"must be {wanted}, not {said}"))
    if not manifest.name:
        found.append(Problem(("metadata",), "name is required"))
    for problem in found or _parsed(manifest):
        yield Finding.of(manifest, problem)


def warnings(manifest: Manifest) -> Iterator[Finding]:
    """What is valid, but perhaps not meant."""
    rule = parse_rule({**manifest.body, "metadata": {"namespace": "default"}})
    if manifest.kind != names.RULE_KIND or isinstance(rule, InvalidSpec) or rule.legacy:
        return  # the old form can't leave namespaces out
    if said := warn_of_system_namespaces(rule.targets):
        yield Finding.of(manifest, Problem((), said), ("spec", "targets"))
    for problem in _of_body(rule.template.body, unknown=True) if rule.template else ():
        yield Finding.of(manifest, problem)


def is_ours(manifest: Manifest) -> bool:
    """Of one of our kinds, of our API groups under a wrong kind, or the signature policy."""
    group, slash, _ = str(manifest.body.get("apiVersion")).partition("/")
    groups = {version.partition("/")[0] for version in _VERSIONS.values()}
    ours = manifest.kind in _VERSIONS or (bool(slash) and group in groups)
    return ours or _is_policy(manifest)


def _is_policy(manifest: Manifest) -> bool:
    return (manifest.kind, manifest.name) == ("ConfigMap", CONFIG_MAP)


def _parsed(manifest: Manifest) -> list[Problem]:
    metadata = {"namespace": "default", **(manifest.body.get("metadata") or {})}
    body = {**manifest.body, "metadata": metadata}
    if manifest.kind == names.BUNDLE_KIND:
        bundle = parse_bundle(body, BundleDefaults())
        if isinstance(bundle, InvalidSpec):
            return [_problem(bundle)]
        signatures = bundle.find(SignaturesSpec)
        entries = signatures.any_of if signatures else ()
        found = (*_subjects(entries, "spec.verify"), *_withheld(bundle))
        return [_problem(InvalidSpec(path, message)) for path, message in found]
    rule = parse_rule(body)
    if isinstance(rule, InvalidSpec):
        return [_problem(rule)]
    return list(_of_rule(rule))


def _of_policy(body: Mapping[str, Any]) -> Iterator[Problem]:
    """Faults of the policy's document; the line is that of its key."""
    path = ("data", POLICY_KEY)
    try:
        policy = policy_in(body)
    except SpecError as error:
        where = error.path.removeprefix(POLICY_KEY).lstrip(".")
        yield Problem(path, f"{where}: {error.message}" if where else error.message)
        return
    for number, entry in enumerate(policy.entries):
        for place, message in _subjects(entry.any_of, f"entries[{number}]"):
            yield Problem(path, f"{place}: {message}")


def _subjects(entries: Sequence[VerifyEntry], path: str) -> Iterator[tuple[str, str]]:
    """Subjects of notation's signers that can't be used, which only verifying finds."""
    for index, entry in enumerate(entries):
        if entry.notation is None:
            continue
        try:
            read_subjects(entry.notation.subjects)
        except TrustError as error:
            yield f"{path}.anyOf[{index}].notation.subjects", str(error)


def _withheld(bundle: BundleSpec) -> Iterator[tuple[str, str]]:
    """Variables that don't reach the Jobs. For others the operator's settings would be needed."""
    for name in restrict_spec(bundle).withheld:
        if name.startswith("spec.env."):
            yield name, f"doesn't reach the Jobs of a gated Bundle. {remedy(name)}"


def _of_rule(rule: RuleSpec) -> Iterator[Problem]:
    """Templates that don't compile, and unknown names in them, which only rendering finds."""
    for place, text in rule_texts(rule):
        path = path_of(place)
        try:
            compile_text(text)
        except TemplateError as error:
            yield _problem(InvalidSpec(path, str(error)))
            continue
        known = OF_NAME if path == "spec.transform.name" else of_template(rule)
        if path == "spec.template.metadata.name":
            known = OF_TEMPLATE
        yield from (_problem(InvalidSpec(path, said)) for said in unknown_names(text, known))
    if rule.template:
        yield from _of_body(rule.template.body, unknown=False)


def _misspelt_kinds(body: Mapping[str, Any]) -> Iterator[Problem]:
    """Kinds that rules name in another case, or in the plural."""
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return
    places: list[tuple[tuple[Step, ...], Any]] = [
        (("spec", part), spec.get(part)) for part in ("source", "template")
    ]
    entries = spec.get("sources")
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        places.append((("spec", "sources", number), entry))
    for place, inner in places:
        kind = inner.get("kind") if isinstance(inner, Mapping) else None
        if isinstance(kind, str) and (right := _right_kind(kind)):
            said = f"{kind} isn't a kind; did you mean {right}?"
            yield Problem((*place, "kind"), said)


def _right_kind(kind: str) -> str | None:
    kinds = {one.kind.lower(): one.kind for one in WELL_KNOWN.values()}
    plurals = {one.plural: one.kind for one in WELL_KNOWN.values()}
    right = kinds.get(kind.lower()) or plurals.get(kind.lower())
    return right if right != kind else None


def _problem(invalid: InvalidSpec) -> Problem:
    """The parsers' path, as steps."""
    path: list[Step] = []
    for index, quoted, name in _STEP.findall(invalid.path):
        path.append(int(index) if index else quoted or name.replace("\\.", "."))
    return Problem(tuple(path), invalid.message)
