"""`copyrator validate`: rules and Bundles in files, checked without a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from copyrator.api import names
from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.counts import count
from copyrator.api.rule import InvalidSpec, parse_rule
from copyrator.api.rule_transform import path_of
from copyrator.cli.crds import schemas
from copyrator.cli.hints import hint
from copyrator.cli.manifests import Manifest, Step, read_manifests
from copyrator.cli.output import Format, answer_option, dump
from copyrator.cli.schema import Problem, problems
from copyrator.copies.policy.compiling import compile_text, rule_texts
from copyrator.copies.policy.template_meter import TemplateError

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


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path())
@click.option(
    "-f",
    "--filename",
    "more",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="File, directory, -.",
)
@answer_option
def validate(files: tuple[str, ...], more: tuple[str, ...], shape: Format | None) -> None:
    """Validate rules and Bundles in files without a cluster; each problem is shown with its line.

    They are validated against the CRDs and by the operator's own parsers. Other kinds are ignored.
    Exit code: 0 all are valid; 1 at least one isn't.
    """
    if not (files or more):
        raise click.UsageError(f"name a file: {hint('validate', '-f', 'rule.yaml')}")
    manifests = [one for one in read_manifests([*files, *more]) if one.kind in _VERSIONS]
    found = [finding for manifest in manifests for finding in check(manifest)]
    if shape is not None:
        dump([finding.to_dict() for finding in found], shape)
    else:
        for finding in found:
            click.echo(str(finding))
        if not manifests:
            click.echo("No CopyratorRule or Bundle found.", err=True)
        elif not found:
            rules = sum(one.kind == names.RULE_KIND for one in manifests)
            bundles = count(len(manifests) - rules, "Bundle")
            click.echo(f"Valid: {count(rules, 'rule')}, {bundles}.")
    if found:
        raise click.exceptions.Exit(1)


def check(manifest: Manifest) -> Iterator[Finding]:
    """The problems of one manifest; the parser's message only where the schema has none."""
    found = [*_version(manifest), *problems(manifest.body, schemas()[manifest.kind])]
    if not manifest.name:
        found.append(Problem(("metadata",), "name is required"))
    for problem in found or _parsed(manifest):
        yield Finding(manifest, manifest.line(problem.path), problem)


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
        return [_problem(bundle)] if isinstance(bundle, InvalidSpec) else []
    rule = parse_rule(body)
    if isinstance(rule, InvalidSpec):
        return [_problem(rule)]
    for place, text in rule_texts(rule):
        try:
            compile_text(text)
        except TemplateError as error:
            return [_problem(InvalidSpec(path_of(place), str(error)))]
    return []


def _problem(invalid: InvalidSpec) -> Problem:
    """The parsers' path, as steps."""
    path: list[Step] = []
    for inner, name in _STEP.findall(invalid.path):
        path.append(name or (int(inner) if inner.isdigit() else inner))
    return Problem(tuple(path), invalid.message)
