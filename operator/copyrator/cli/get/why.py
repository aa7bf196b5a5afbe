"""`copyrator why`: which rule made an object, or why none does; why a Bundle runs its version.

With `--roles`: what grants a Bundle's service account the permissions that it lacks. Each of these
imports its own part of the operator, which takes as long as its requests.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.cli.core.cluster import Target, ahead, all_of, cluster_options
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    operator_namespace_option,
)
from copyrator.cli.core.objects import (
    RESOURCES,
    Body,
    What,
    complete_objects,
    find_copies,
    listed,
    means,
    one,
)
from copyrator.cli.core.output import Format, Kind, answer_option, dump, identity, prose, typed
from copyrator.kube import errors
from copyrator.kube.resources import (
    BUNDLES,
    RULES,
    WELL_KNOWN,
    Discovery,
    Resource,
)
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from copyrator.bundles.engine.references import Ref
    from copyrator.cli.rules.dry_run import Actor, DryRun
    from copyrator.cli.view.rule import CertificateRow
    from copyrator.cli.view.why_copy import CopyAnswer
    from copyrator.kube.client.client import KubeClient


_KINDS = What("bundles", "rules", "copies")


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Kinds, and the names of rules, Bundles and copies."""
    if words := ctx.params.get("words"):
        return complete_objects(ctx, str(_KINDS.find(words[0])), "", incomplete)
    return _KINDS.shell_complete(ctx, param, incomplete)


_NAMING = ("values", "valuesFrom", "auth", "caSecret", "secretKey")
"""Fields of a Bundle that name a ConfigMap or Secret."""
_GUESSES = ("Secret", "ConfigMap")
"""Kinds that are tried where none is named."""


@click.command()
@click.argument(
    "words",
    metavar="(KIND/NAME | [KIND] [NAMESPACE/]NAME)",
    nargs=-1,
    required=True,
    shell_complete=_complete,
)
@click.option(
    "--kind", metavar="KIND", help="Kind of the object; default: Bundle, Secret or ConfigMap."
)
@click.option(
    "--roles",
    is_flag=True,
    help="Print only the roles and bindings that grant a Bundle's service account what it lacks.",
)
@click.option("--all", "every", is_flag=True, help="Print the answers of all rules.")
@cluster_options()
@operator_namespace_option
@answer_option
async def why(
    *,
    target: Target,
    words: tuple[str, ...],
    kind: str | None,
    roles: bool,
    every: bool,
    home: str | None,
    shape: Format | None,
) -> None:
    """Explain why an object exists or doesn't, why a Bundle has its version, or a rule its state.

    KIND is rule, bundle, copy, or the kind of a copy. The object needn't exist. Nothing is
    written: a rule's write is sent as a dry run, as the operator where you may impersonate its
    service account, so that quotas, webhooks and missing permissions are named.
    """
    kind, name = _parse(words, kind)
    namespace, name = target.locate(name)
    if roles:
        from copyrator.cli.bundles.permissions import print_roles

        await print_roles(target, namespace, name, kind, shape)
        return
    found = await answer(target, namespace, name, kind, home)
    prose(found.down, err=True)
    if shape is not None:
        dump(typed(Kind.EXPLANATION, found.document), shape)
    else:
        prose([*found.lines, *(found.others if every else found.summary)])
    if found.remark:
        prose([found.remark], err=True)


def _parse(words: Sequence[str], kind: str | None) -> tuple[str | None, str]:
    """The kind, where one is named, and the name with or without its namespace.

    Raises:
        UsageError: these aren't a kind and a name.
    """
    *before, name = words
    if not before and kind is None:  # with --kind `copyrator/web` is an object of that namespace
        word, slash, rest = name.partition("/")
        if slash and rest and (_KINDS.find(word) or _known_kind(word)):
            before, name = [word], rest
    if len(before) > 1 or (before and kind is not None):
        raise click.UsageError("name one object: KIND/NAME, KIND NAME, or NAME with --kind")
    return (before[0] if before else kind), name


@dataclass(frozen=True, slots=True)
class Explanation:
    """As sentences, and as a document for programs."""

    lines: Sequence[str]
    document: Mapping[str, Any]
    remark: str = ""
    others: Sequence[str] = ()
    """What the rules say that don't decide about the object."""
    summary: Sequence[str] = ()
    """How many these are."""
    copy: CopyAnswer | None = None
    """The same as typed parts, where it is about a copy, or another object of its kind."""
    down: Sequence[str] = ()
    """That the operator is down, so that all of this may be out of date."""


async def answer(
    target: Target, namespace: str, name: str, kind: str | None, home: str | None
) -> Explanation:
    """Why an object, which needn't exist, is as it is.

    Raises:
        Fault: there is no Bundle of that name, where one is asked about.
    """
    from copyrator.cli.view.operator import read_downtime

    async with (
        target.connect() as client,
        ahead(find_installation(client, home)) as finding,
        ahead(read_downtime(client, finding, [namespace])) as downtime,
    ):
        if kind is not None and means(kind, "rules"):
            explained = _of_rule(await one(client, "rules", namespace, name))
            return replace(explained, down=await downtime)
        async with ahead(_bundle(client, namespace, name, kind)) as bundle:
            installation = await finding
            if body := await bundle:
                explained = await _of_bundle(client, installation, body)
                return replace(explained, down=await downtime)
        from copyrator.cli.rules.dry_run import actor_of

        async with ahead(actor_of(client, target, installation, namespace)) as actor:
            resource, body = await _object(client, namespace, name, kind)
            acts_as = await actor
        down = await downtime
    seen = home is not None or installation.found
    why = installation.denial or "it wasn't found"
    remark = "" if seen else _UNSEEN.format(installation.settings.namespace, why)
    found = _Object(resource, namespace, name, body)
    explained = await _of_object(found, installation, acts_as, f"{remark} {acts_as.note}".strip())
    return replace(explained, down=down)


async def _bundle(
    client: KubeClient, namespace: str, name: str, kind: str | None
) -> dict[str, Any] | None:
    """The Bundle, where one may be meant and exists.

    Raises:
        Fault: a Bundle is meant, and there is none.
    """
    if kind is not None and not means(kind, "bundles"):
        return None
    found = await _find(client, BUNDLES, namespace, name)
    if found is None and kind is not None:
        raise Fault(f"there is no Bundle {name} in the namespace {namespace}")
    return found


def _of_rule(rule: Body) -> Explanation:
    from copyrator.cli.view.rule import RuleView, explain_rule

    view = RuleView(rule, datetime.now(UTC))
    lines = list(explain_rule(view))
    copies = {"copies": view.counts.to_dict()}
    return Explanation(lines, {**_state(rule), **copies, "because": lines})


def _state(body: Body) -> dict[str, Any]:
    """How the document about a rule or Bundle begins."""
    from copyrator.cli.view.rows import ready

    condition = ready(body)
    return {"object": identity(body), "ready": condition.status, "reason": condition.reason}


async def _of_bundle(client: KubeClient, installation: Installation, bundle: Body) -> Explanation:
    from copyrator.cli.bundles.plan_log import with_refusals
    from copyrator.cli.core.beside import read_for
    from copyrator.cli.view.bundle import BundleView
    from copyrator.cli.view.rows import version
    from copyrator.cli.view.why_bundle import explain_bundle

    async with (
        ahead(read_for(client, installation, bundle)) as reading,
        ahead(with_refusals(client, bundle)) as known,
    ):
        polled = await _polled(client, installation, bundle)
        found = await reading
        now = datetime.now(UTC)
        view = BundleView(await known, now, installation, found.values, found.unread)
    lines = list(explain_bundle(view, polled))
    state = {
        **_state(bundle),
        "deployed": version(view.status.deployed),
        "available": version(view.status.available),
        "gates": [gate.to_dict() for gate in view.status.gates],
        "requiredGates": list(view.gates),
    }
    return Explanation(lines, {**state, "because": lines})


@dataclass(frozen=True, slots=True)
class _Object:
    """What is asked about, with its body where it exists."""

    resource: Resource
    namespace: str
    name: str
    body: dict[str, Any] | None


async def _of_object(
    found: _Object, installation: Installation, actor: Actor, remark: str
) -> Explanation:
    from copyrator.cli.rules.dry_run import dry_running, owner_of
    from copyrator.cli.rules.why import (
        ExplainedObject,
        answers,
        composed_of,
        deciding_rule,
        sources_of,
        verdict_of,
    )
    from copyrator.cli.view.why_copy import CopyAnswer, CopyVerdict

    owner = owner_of(found.body or _NOBODY)
    async with dry_running(installation, actor) as dry_run:
        await dry_run.serve_all(found.resource.kind)
        asked = ExplainedObject(dry_run, found.resource, found.namespace, found.name)
        hidden = dry_run.hidden(owner)
        verdict = CopyVerdict(hidden) if hidden else await verdict_of(asked)
        said, sources = answers(asked, owner), sources_of(dry_run, asked.key)
        decides = deciding_rule(asked, owner) is not None
        answer = CopyAnswer(
            found.resource.kind,
            found.namespace,
            found.name,
            found.body["metadata"] if found.body else None,
            owner,
            verdict,
            composed_of(asked),
            _certificates(dry_run, found.body, owner, sources),
            sources,
            said[0] if decides else None,
            said[1:] if decides else said,
        )
    document = {
        "object": {
            "apiVersion": found.resource.api_version,
            "kind": found.resource.kind,
            "namespace": found.namespace,
            "name": found.name,
        },
        "exists": answer.metadata is not None,
        "madeBy": answer.owner,
        "verdict": answer.verdict.text,
        "rules": [{"rule": one.rule, "answer": one.text} for one in answer.answers],
    }
    if answer.sources:
        document["sourceOf"] = [
            {"rule": rule, "copies": many} for rule, many in answer.sources.items()
        ]
    if answer.certificates:
        document["certificates"] = answer.facts[2:]
    return Explanation(document=document, remark=remark, copy=answer, **_lines_of(answer))


def _lines_of(answer: CopyAnswer) -> dict[str, list[str]]:
    """The answer as it is printed: without a rule that decides, those of all rules."""
    from copyrator.cli.view.why_copy import count_rules, describe_writes, explain

    first, others = answer.first, answer.others
    writes = describe_writes(answer.metadata or {}, datetime.now(UTC)) if answer.owner else ()
    facts = [*answer.facts, *(f"{one.label}: {one.value}" for one in writes)]
    if first is None or not others:
        return {"lines": [*facts, *_indented(explain(answer.answers))]}
    return {
        "lines": [*facts, *_indented(explain([first]))],
        "others": _indented(explain(others)),
        "summary": _indented([f"{count_rules(others)} (--all)"]),
    }


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _certificates(
    dry_run: DryRun, body: Body | None, owner: str | None, sources: Iterable[str]
) -> list[CertificateRow]:
    """The certificates in a copy, or in a source, as its rules' statuses have them."""
    from copyrator.cli.view.rows import annotation
    from copyrator.cli.view.rule import certificate_rows

    if body is None:
        return []
    shown = str(name_of(body))
    origin = annotation(body, names.ANN_SOURCE)
    asked = [(owner, origin if origin != "-" else None)] if owner else []
    found: dict[str, CertificateRow] = {}
    for rule, source in asked or [(rule, shown) for rule in sources]:
        if known := dry_run.context.rules.by_owner(rule):
            rows = certificate_rows(dry_run.views[known.key], source)
            found |= {row.line: row for row in rows}
    return list(found.values())


async def _polled(
    client: KubeClient, installation: Installation, bundle: Mapping[str, Any]
) -> frozenset[Ref]:
    """The objects whose edits are found by polls only; empty if Bundles can't be listed."""
    if any(bundle["spec"].get(field) for field in _NAMING):
        from copyrator.cli.doctor.permissions import polled_references

        with suppress(errors.ApiError):
            bundles = await listed(client, BUNDLES, None)
            return (await polled_references(client, installation, bundles)).refs
    return frozenset()


_UNSEEN = (
    "The operator's default settings are assumed, with trusted rules in the namespace {}: {}; if "
    "it is installed, set --operator-namespace."
)
_NOBODY: Mapping[str, Any] = {"metadata": {}}


async def _find(
    client: KubeClient, resource: Resource, namespace: str, name: str
) -> dict[str, Any] | None:
    try:
        return await client.get(resource, namespace, name)
    except errors.NotFound:
        return None


async def _object(
    client: KubeClient, namespace: str, name: str, kind: str | None
) -> tuple[Resource, dict[str, Any] | None]:
    """The requested kind, and the object where it exists."""
    discovery = Discovery(client)
    if kind is not None and means(kind, "copies"):
        found = await find_copies(client, [namespace])
        kinds = [body["kind"] for body in found.bodies if name_of(body).name == name]
        if len(kinds) == 1:  # the object needn't exist
            resource = next(one for one in found.resources if one.kind == kinds[0])
            return resource, await _find(client, resource, namespace, name)
    elif kind is not None:
        word, _, version = kind.partition(".")
        resource = RESOURCES.get(kind.lower()) or await discovery.resolve(
            _known_kind(word) or word, version or None
        )
        return resource, await _find(client, resource, namespace, name)
    guesses = [WELL_KNOWN[guess] for guess in _GUESSES]
    bodies = await all_of(_find(client, resource, namespace, name) for resource in guesses)
    for resource, body in zip(guesses, bodies, strict=True):
        if body is not None:
            return resource, body
    return await discovery.resolve(await _rules_kind(client)), None


async def _rules_kind(client: KubeClient) -> str:
    """The kind of all rules, where they have the same."""
    from copyrator.cli.view.rule import rule_kind

    kinds: set[str] = set()
    with suppress(errors.Forbidden):
        kinds = {rule_kind(body) for body in await listed(client, RULES, None)}
    return kinds.pop() if len(kinds) == 1 and "-" not in kinds else _GUESSES[0]


_SHORT = {"cm": "ConfigMap", "sa": "ServiceAccount", "netpol": "NetworkPolicy"}
"""Kubernetes' short names of kinds that are copied."""


def _known_kind(word: str) -> str | None:
    """The kind that ``secret``, ``configmaps``, ``cm`` and the like mean."""
    word = word.lower()
    names = ((one, (one.kind.lower(), one.plural)) for one in WELL_KNOWN.values())
    return _SHORT.get(word) or next((one.kind for one, known in names if word in known), None)
