"""What `copyrator validate` finds in rules and Bundles, without a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from copyrator.api import names
from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec, NotationSpec, VerifyEntry
from copyrator.api.fields import InvalidSpec, SpecError
from copyrator.api.rule import parse_rule, path_of
from copyrator.api.rule_spec import RuleSpec, Targets
from copyrator.bundles.deploy.restrictions import remedy, restrict_spec
from copyrator.bundles.trust.policy import CONFIG_MAP, POLICY_KEY, policy_in
from copyrator.cli.offline.install import schemas
from copyrator.cli.offline.manifests import Manifest, Step
from copyrator.cli.offline.schema import (
    OF_NAME,
    OF_TEMPLATE,
    Problem,
    of_template,
    problems,
    unknown_fields,
    unknown_names,
    wrong_types,
)
from copyrator.copies.template.compiling import compile_text
from copyrator.copies.template.rendering import rule_texts
from copyrator.copies.template.scope import TemplateError
from copyrator.kube.resources import WELL_KNOWN
from copyrator.signatures.model import TrustError
from copyrator.signatures.notation import read_subjects

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
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its position."""

    manifest: Manifest
    line: int
    problem: Problem

    def __str__(self) -> str:
        field = f"{self.problem.field}: " if self.problem.field else ""
        where = f"{self.manifest.source}:{self.line}"
        return f"{where}: {self.manifest.kind} {self.manifest.name}: {field}{self.problem.message}"

    def to_dict(self) -> dict[str, Any]:
        """As in -o json."""
        return {
            "file": self.manifest.source,
            "line": self.line,
            "kind": self.manifest.kind,
            "name": self.manifest.name,
            "field": self.problem.field,
            "message": self.problem.message,
        }


def check(manifest: Manifest) -> Iterator[Finding]:
    """The problems of one manifest; the parser's message only where the schema has none."""
    if _is_policy(manifest):
        for problem in _of_policy(manifest.body):
            yield Finding(manifest, manifest.line(problem.path), problem)
        return
    if manifest.kind not in _VERSIONS:
        problem = Problem(("kind",), _no_kind(manifest))
        yield Finding(manifest, manifest.line(problem.path), problem)
        return
    kinds = list(_misspelt_kinds(manifest.body))
    at = {problem.path for problem in kinds}
    violations = problems(manifest.body, schemas()[manifest.kind])
    found = [*_version(manifest), *kinds, *(one for one in violations if one.path not in at)]
    if not manifest.name:
        found.append(Problem(("metadata",), "name is required"))
    for problem in found or _parsed(manifest):
        yield Finding(manifest, manifest.line(problem.path), problem)


def warnings(manifest: Manifest) -> Iterator[Finding]:
    """What is valid, but perhaps not meant."""
    rule = parse_rule({**manifest.body, "metadata": {"namespace": "default"}})
    if manifest.kind != names.RULE_KIND or isinstance(rule, InvalidSpec) or rule.legacy:
        return  # the old form can't leave namespaces out
    if said := warn_of_system_namespaces(rule.targets):
        yield Finding(manifest, manifest.line(("spec", "targets")), Problem((), said))
    for problem in unknown_fields(rule.template.body) if rule.template else ():
        yield Finding(manifest, manifest.line(problem.path), problem)


def is_ours(manifest: Manifest) -> bool:
    """Of one of our kinds, of our API groups under a wrong kind, or the signature policy."""
    group, slash, _ = str(manifest.body.get("apiVersion")).partition("/")
    groups = {version.partition("/")[0] for version in _VERSIONS.values()}
    ours = manifest.kind in _VERSIONS or (bool(slash) and group in groups)
    return ours or _is_policy(manifest)


def _is_policy(manifest: Manifest) -> bool:
    return (manifest.kind, manifest.name) == ("ConfigMap", CONFIG_MAP)


def _no_kind(manifest: Manifest) -> str:
    group = str(manifest.body.get("apiVersion")).partition("/")[0]
    meant = next(kind for kind, version in _VERSIONS.items() if version.startswith(f"{group}/"))
    return f"{group} has no kind {manifest.kind or '(none)'}; did you mean {meant}?"


def _version(manifest: Manifest) -> Sequence[Problem]:
    wanted, said = _VERSIONS[manifest.kind], manifest.body.get("apiVersion")
    if said == wanted:
        return []
    return [Problem(("apiVersion",), f"must be {wanted}, not {said}")]


def _parsed(manifest: Manifest) -> list[Problem]:
    metadata = {"namespace": "default", **(manifest.body.get("metadata") or {})}
    body = {**manifest.body, "metadata": metadata}
    if manifest.kind == names.BUNDLE_KIND:
        bundle = parse_bundle(body, BundleDefaults())
        if isinstance(bundle, InvalidSpec):
            return [_problem(bundle)]
        entries = bundle.verify.any_of if bundle.verify else ()
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
        if not isinstance(entry, NotationSpec):
            continue
        try:
            read_subjects(entry.subjects)
        except TrustError as error:
            yield f"{path}.anyOf[{index}].notation.subjects", str(error)


def _withheld(bundle: BundleSpec) -> Iterator[tuple[str, str]]:
    """Variables that don't reach the Jobs. For others the operator's settings would be needed."""
    for name in restrict_spec(bundle).withheld:
        if name.startswith("spec.env["):
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
        yield from wrong_types(rule.template.body)


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
        if isinstance(kind, str) and (meant := _meant(kind)):
            said = f"{kind} isn't a kind; did you mean {meant}?"
            yield Problem((*place, "kind"), said)


def _meant(kind: str) -> str | None:
    kinds = {one.kind.lower(): one.kind for one in WELL_KNOWN.values()}
    plurals = {one.plural: one.kind for one in WELL_KNOWN.values()}
    meant = kinds.get(kind.lower()) or plurals.get(kind.lower())
    return meant if meant != kind else None


def _problem(invalid: InvalidSpec) -> Problem:
    """The parsers' path, as steps."""
    path: list[Step] = []
    for inner, name in _STEP.findall(invalid.path):
        path.append(name or (int(inner) if inner.isdigit() else inner))
    return Problem(tuple(path), invalid.message)
