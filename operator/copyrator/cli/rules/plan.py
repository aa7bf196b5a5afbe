"""`copyrator plan rule`: what rules would do, by a dry run on the cluster.

Sources and namespaces in the files of -f count as applied.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Any, Final

import click
import msgspec

from copyrator.api import names
from copyrator.api.keys import CopyKey, ObjectName
from copyrator.api.reasons.rules import FailureReason, RuleReason
from copyrator.api.rollout import Rollout
from copyrator.api.rule_spec import RuleSpec, Source
from copyrator.api.rule_status import shared_message
from copyrator.api.schema import InvalidSpec
from copyrator.api.structs import replace
from copyrator.api.text import count, format_duration, format_time, some
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import find_installation
from copyrator.cli.core.objects import Body, one
from copyrator.cli.core.output import (
    Column,
    Format,
    Kind,
    Table,
    console,
    dump,
    paint_diff,
    prose,
    typed,
)
from copyrator.cli.offline.manifests import Manifest
from copyrator.cli.offline.validate import check, is_ours, warn_of_system_namespaces
from copyrator.cli.rules.dry_run import (
    DryRun,
    DryRunClient,
    FullSummary,
    actor_of,
    dry_running,
)
from copyrator.cli.rules.rendered import compare
from copyrator.cli.rules.why import composition_fault
from copyrator.cli.view.diffs import ALL_LINES, DiffView, LineBudget, without_same
from copyrator.cli.view.rule import group_failures
from copyrator.copies.composed.composer import binding_of
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.admission import name_group
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.status import dropped_fields
from copyrator.copies.rules.summarize import summarize_rule
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.copies.sources.records import SourceReader
from copyrator.copies.targets.content import DATA_FIELDS, new_object
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.planning import Action
from copyrator.kube import errors
from copyrator.kube.resources import RULES, Resource
from copyrator.kube.watch.reflector import name_of
from copyrator.workqueue.queue import Done, Outcome


class RowAction(StrEnum):
    """What would happen to a target."""

    CREATE = "create"
    UPDATE = "update"
    ADOPT = "adopt"
    RECREATE = "recreate"
    DELETE = "delete"
    RELEASE = "release"
    """The object stays, our marks are removed."""
    CONFLICT = "conflict"
    """An unmanaged object exists there."""
    BLOCKED = "blocked"
    """The API server, an admission plugin or a webhook refuses it."""


class Keys(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changes of an object, by name; never by value."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        signs = (("+", self.added), ("~", self.changed), ("-", self.removed))
        return " ".join(f"{sign}{key}" for sign, keys in signs for key in keys)


NO_KEYS: Final = Keys()


class PlanRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One target; as in ``-o json``."""

    action: RowAction
    kind: str
    namespace: str
    name: str
    reason: str = ""
    message: str = ""
    keys: Keys = NO_KEYS
    note: str = ""
    """What else is known of it."""
    group: str = ""
    """The kind's API group."""
    object: dict[str, Any] | None = None
    """As it would be, without values of Secrets; only of the one that is asked for."""
    diff: str = ""
    """Its difference to the existing object."""

    @property
    def reference(self) -> str:
        """As `kubectl -o name` prints it."""
        kind = f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()
        return f"{kind}/{self.name}"

    @property
    def what(self) -> str:
        """The last column."""
        said = f"{self.reason}: {self.message}" if self.reason else str(self.keys)
        return f"{said} {self.note}".strip()


COLUMNS = (
    Column("ACTION", lambda row: row.action.value),
    Column("NAMESPACE", lambda row: row.namespace),
    Column("NAME", lambda row: row.name or "-"),
    Column("WHAT", lambda row: row.what, signed=True),
)


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The plan of one rule."""

    rule: str
    """``namespace/name``; of a rule that has a fault, where it is."""
    rows: Sequence[PlanRow] = ()
    right: int = 0
    """Copies that are up to date."""
    fault: str = ""
    """Why there is no plan."""
    notes: Sequence[str] = ()
    """What else to know before it is applied."""
    wanted: ObjectName | None = None
    """The only copy that was asked for, with its object."""


def document(plan: RulePlan) -> dict[str, Any]:
    """As in -o json."""
    found = typed(Kind.PLAN, {"rule": plan.rule})
    if plan.fault:
        return {**found, "error": plan.fault}
    changes = msgspec.to_builtins(plan.rows)
    notes = {"notes": list(plan.notes)} if plan.notes else {}
    return {**found, "upToDate": plan.right, "changes": changes, **notes}


def merge_rows(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Rows with the same fault in several namespaces as one."""
    found = [row for row in rows if not row.reason]
    for group in group_failures(row for row in rows if row.reason):
        if len(group) == 1:
            found += group
            continue
        names = {row.name for row in group}
        shown = replace(group[0], name=names.pop() if len(names) == 1 else "*")
        spaces = some((row.namespace for row in group), "namespaces")
        found.append(
            replace(shown, namespace=spaces, message=shared_message(shown.namespace, shown.message))
        )
    return found


def action_of(methods: Sequence[str], *, unmanaged: bool) -> RowAction | None:
    """The action of the writes to one object; None where there were none."""
    if not methods:
        return None
    if "POST" in methods:
        return RowAction.CREATE
    if "PUT" in methods:
        return RowAction.ADOPT if unmanaged else RowAction.UPDATE
    return RowAction.RELEASE if "PATCH" in methods else RowAction.DELETE


def diff(live: Body | None, wanted: Body) -> Keys:
    """Which keys of an object differ; of other kinds, which top-level fields."""
    before = _flat(live) if live else {}
    after = _flat(wanted)
    found = Keys(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(
            sorted(one for one in after.keys() & before.keys() if after[one] != before[one])
        ),
        removed=tuple(sorted(before.keys() - after.keys())),
    )
    return NO_KEYS if found == NO_KEYS else found


def _flat(body: Body) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name in ("apiVersion", "kind", "metadata", "status"):
            continue
        if name in DATA_FIELDS:
            found |= value or {}
        elif value not in (None, "Opaque"):  # the default type of a Secret isn't shown
            found[name] = value
    for part in ("labels", "annotations"):
        for key, value in (body["metadata"].get(part) or {}).items():
            if not key.startswith("copyrator.flant.com/") and not _is_noise(key):
                found[f"{part}/{key}"] = value
    return found


def _is_noise(key: str) -> bool:
    return key == "app.kubernetes.io/managed-by" or key.startswith("kubectl.kubernetes.io/")


def summary(rows: Iterable[PlanRow], right: int) -> str:
    """One line: the number of each."""
    counts = Counter(row.action for row in rows)
    if not counts:
        text = count(right, "copy is", "copies are")
        return f"No changes: {text} up to date."
    parts = [f"{counts[action]} to {action}" for action in RowAction if counts[action]]
    text = ", ".join(parts)
    for words, good in (("to conflict", "in conflict"), ("to blocked", "blocked")):
        text = text.replace(words, good)
    return f"Plan: {text}; {count(right, 'is', 'are')} up to date."


def in_steps(rollout: Rollout, targets: int) -> str:
    """A sentence: changes of existing copies aren't made at once."""
    pause = format_duration(rollout.pause)
    return (
        f"Existing copies are changed in steps (spec.rollout): {rollout.to_string(targets)} of "
        f"{targets} namespaces, {pause} after each; new ones are created at once."
    )


@dataclass(frozen=True, slots=True)
class Files:
    """The manifests of -f; a name without a namespace is in the command's."""

    manifests: Sequence[Manifest]
    target: Target

    def check(self) -> None:
        """Refuse what `validate` refuses, before anything is sent.

        Raises:
            Fault: all problems, each with its file and line; or there is no rule.
        """
        ours = (one for one in self.manifests if is_ours(one) and one.kind != names.BUNDLE_KIND)
        found = [str(problem) for one in ours for problem in check(one)]
        if found:
            raise Fault("\n".join(found))
        if not any(one.kind == names.RULE_KIND for one in self.manifests):
            source = self.manifests[0].source if self.manifests else "rule.yaml"
            raise Fault(
                "the file has no CopyratorRule; Bundles are checked by: "
                f"{hint('validate', '-f', source)}"
            )

    def rules(self) -> Iterator[Manifest]:
        """The rules."""
        return (one for one in self.manifests if one.kind == names.RULE_KIND)

    def namespace_of(self, manifest: Manifest) -> str:
        """The namespace that a manifest would be applied to."""
        return manifest.namespace or self.target.namespace

    def namespaces(self) -> dict[str, Namespace]:
        """The Namespaces in the files, by name."""
        found = {}
        for manifest in self.manifests:
            if manifest.kind == "Namespace" and (name := manifest.name):
                space = Namespace.from_metadata(manifest.body)
                labels = {"kubernetes.io/metadata.name": name, **space.labels}
                found[name] = Namespace(name, labels=labels, annotations=space.annotations)
        return found

    async def stored(
        self, client: DryRunClient, resource: Resource, manifest: Manifest
    ) -> dict[str, Any]:
        """An object as the API server would store it.

        Raises:
            Fault: it would be refused; the message names the file.
        """
        namespace = self.namespace_of(manifest)
        try:
            return await dry_object(client, resource, namespace, manifest.body)
        except errors.NotFound as error:
            if not error.namespace_missing:
                raise
            if namespace in self.namespaces():
                return _made_up(resource, namespace, manifest.body)
            raise Fault(
                f"{manifest.where}: the namespace {namespace} doesn't exist; create it, or add it "
                "to the files"
            ) from None
        except (errors.Invalid, errors.BadRequest, errors.Forbidden) as error:
            raise Fault(f"{manifest.where}: {error.message}") from None

    def assume_namespaces(self, dry_run: DryRun) -> None:
        """Let the namespaces exist that the files would create."""
        for name, space in self.namespaces().items():
            if dry_run.context.namespaces.get(name) is None:
                dry_run.context.namespaces.put(space)
                dry_run.client.assumed.add(name)

    async def add_sources(self, dry_run: DryRun, rule: Rule, client: DryRunClient) -> None:
        """Let the rule's sources exist that the files would create."""
        assert not isinstance(rule.spec, InvalidSpec)
        source, context = rule.spec.source, dry_run.context
        state = context.rule_states.get(rule.key)
        if rule.spec.sources:
            await self._add_composed(dry_run, rule, client)
            return
        if source is None or state is None or state.compiled is None:
            return
        resource = await context.discovery.resolve(source.kind, source.api_version)
        for manifest in self.manifests:
            if not self._is_source(manifest, source):
                continue
            body = await self.stored(client, resource, manifest)
            record = SourceReader(resource.api_version, resource.kind)(body)
            if not record.refused:
                rank = (source.namespaces.index(self.namespace_of(manifest)), manifest.name)
                context.index.add(SourceBinding(state.compiled, record, rank))

    async def _add_composed(self, dry_run: DryRun, rule: Rule, client: DryRunClient) -> None:
        """The same for a template's sources, which are then read again."""
        binding = binding_of(dry_run.context, rule.owner)
        if binding is None:
            return
        added = False
        for part in binding.composition.parts:
            for manifest in self.manifests:
                if self._is_source(manifest, part.entry):
                    body = await self.stored(client, part.resource, manifest)
                    name = ObjectName(part.entry.namespace, manifest.name)
                    part.assumed[name] = body
                    part.changed()
                    added = True
        if added:
            dry_run.client.ready_conditions.pop(rule.key, None)
            await dry_run.serve(rule)

    def _is_source(self, manifest: Manifest, source: Source) -> bool:
        if manifest.kind != source.kind or self.namespace_of(manifest) not in source.namespaces:
            return False
        labels = manifest.body["metadata"].get("labels") or {}
        named = source.name in (None, manifest.name)
        return named and (source.selector is None or source.selector.matches(labels))


def _made_up(resource: Resource, namespace: str, body: Body) -> dict[str, Any]:
    """An object in a namespace that doesn't exist yet: what the API server would add."""
    added = {
        "namespace": namespace,
        "uid": f"{namespace}/{body['metadata'].get('name')}",
        "resourceVersion": "0",
        "generation": 1,
        "creationTimestamp": format_time(datetime.now(UTC)),
    }
    found = {**body, "metadata": {**body["metadata"], **added}}
    if resource.kind == "Secret":
        texts = found.pop("stringData", None) or {}
        encoded = {
            key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()
        }
        found["data"] = {**(found.get("data") or {}), **encoded}
    return found


async def dry_object(
    client: DryRunClient, resource: Resource, namespace: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """An object as the API server would store it after an apply, validated and with defaults.

    Raises:
        ApiError: it would refuse it.
    """
    name = body["metadata"]["name"]
    wanted = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    try:
        live = await client.get(resource, namespace, name)
    except errors.NotFound as error:
        if error.kind_missing:
            raise
        path, method = resource.path(namespace), "POST"
    else:
        path, method = resource.path(namespace, name), "PUT"
        wanted["metadata"] = {**live["metadata"]} | {
            part: {**(live["metadata"].get(part) or {}), **(body["metadata"].get(part) or {})}
            for part in ("labels", "annotations")
        }
    answer = await client.request(method, path, body=wanted)
    return {**answer, "apiVersion": resource.api_version, "kind": resource.kind}


def print_plans(results: Sequence[RulePlan], shape: Format) -> None:
    """Print all plans in the chosen shape; faults are left to the caller, but for programs."""
    if shape in (Format.JSON, Format.YAML):
        dump(typed(Kind.PLAN_LIST, {"items": [*map(document, results)]}), shape)
        return
    for result in results:
        if result.fault:
            continue
        if shape is Format.NAME:
            for row in result.rows:
                click.echo(row.reference)
            continue
        if len(results) > 1:
            console().print(f"rule {result.rule}")
        if result.wanted:
            _show_object(result)
            continue
        if result.rows:
            wide = shape is Format.WIDE
            rows = result.rows if wide else merge_rows(result.rows)
            Table(COLUMNS, wide=wide, whole=True).print(rows)
        prose([summary(result.rows, result.right), *result.notes])


def _show_object(plan: RulePlan) -> None:
    """Print the one copy that was asked for: what would be done, and the object."""
    for row in plan.rows:
        said = f": {row.reason}: {row.message}" if row.reason else ""
        prose([f"{row.action} {row.kind} {row.namespace}/{row.name}{said} {row.note}".rstrip()])
        lines = row.diff.split("\n") if row.diff else []
        diff = DiffView.of(without_same(lines), LineBudget(each=ALL_LINES))
        prose(paint_diff(diff.lines, "  "))
        if diff.left:
            prose([f"  … {count(diff.left, 'more line')}; -o yaml prints all of it"])
    if not plan.rows:
        prose([f"No changes: {plan.wanted} is up to date with the rule {plan.rule}."])
    prose(plan.notes)


_CHANGES = (RowAction.UPDATE, RowAction.RECREATE)
AT_ONCE = 8
"""Dry runs in flight."""
NEAREST = 10_000
"""Names that are compared with one that isn't there."""

_UNKNOWN_SETTINGS = (
    "No operator's Deployment is found, so its settings aren't known: whether it serves rules of "
    "these kinds and namespaces is in their status once they are applied."
)


_TRIED = (
    "Tried as {}, not as the operator: the results may differ. To use the operator's permissions, "
    "set --as to its service account, or get permission to impersonate that."
)


async def plan_rules(
    target: Target,
    name: str | None,
    files: Files,
    home: str | None,
    wanted: ObjectName | None = None,
) -> tuple[list[RulePlan], list[str]]:
    """Plan each rule; a fault of one doesn't affect the plans of others.

    ``wanted``: only this copy, with the object that would be written.

    Raises:
        Fault: no rule has this copy; or of one rule by its name, it can't be planned.
    """
    you = dataclasses.replace(target, user=None)
    results, notes, missing = [], [], []
    async with you.connect_with(DryRunClient) as mine:
        installation = await find_installation(mine, home)
        async for where, read in _bodies(mine, target, name, files):
            try:
                body = await read()
                near = target.namespace, name_of(body).namespace
                actor = await actor_of(mine, target, installation, *near)
                async with dry_running(installation, actor) as dry_run:
                    files.assume_namespaces(dry_run)
                    rule = await _serve(dry_run, body)
                    await files.add_sources(dry_run, rule, mine)
                    _check_means_something(dry_run, rule)
                    results.append(await _rows(dry_run, rule, wanted))
            except _NoSuchCopyError as error:
                missing.append(str(error))
                continue
            except (Fault, errors.ApiError) as error:
                if name:
                    raise
                said = error.message if isinstance(error, errors.ApiError) else str(error)
                results.append(RulePlan(where, fault=said if where in said else f"{where}: {said}"))
                continue
            notes = [_TRIED.format(actor.who), *filter(None, [actor.note])] if actor.who else []
        if files.manifests and not installation.settings_known:
            notes.append(_UNKNOWN_SETTINGS)
    if missing and not results:
        raise Fault("\n".join(missing))
    return results, notes


async def _bodies(
    client: DryRunClient, target: Target, name: str | None, files: Files
) -> AsyncIterator[tuple[str, Callable[[], Awaitable[dict[str, Any]]]]]:
    """The requested rules: where each is, and how to read it as the API server would store it."""
    if name:
        namespace, name = target.locate(name)
        yield f"rule {namespace}/{name}", partial(one, client, "rules", namespace, name)
    for manifest in files.rules():
        yield manifest.where, partial(files.stored, client, RULES, manifest)


async def _serve(dry_run: DryRun, body: Body) -> Rule:
    """Serve the rule, and those of the same kind.

    Raises:
        Fault: the operator wouldn't serve it.
    """
    rule = dry_run.put(body, acts=True)
    if isinstance(rule.spec, InvalidSpec):
        raise Fault(f"rule {rule.owner}: {rule.spec}")
    if verdict := dry_run.refusal(rule):
        verdict = await name_group(verdict, rule.spec, dry_run.kinds, dry_run.context.discovery)
        raise Fault(f"rule {rule.owner} wouldn't be served: {verdict.reason}: {verdict.message}")
    if elsewhere := dry_run.elsewhere(rule):
        raise Fault(f"rule {rule.owner} can't be planned: {elsewhere}")
    await dry_run.serve_all(rule.spec.kind, but=rule.key)
    state = await dry_run.serve(rule)
    said = dry_run.client.ready_conditions.get(rule.key)
    if said and said.reason == InvalidSpec.reason and (state is None or not state.compiled):
        raise Fault(f"rule {rule.owner}: {said.message}")  # its Jinja2 can't be compiled
    return rule


def _check_means_something(dry_run: DryRun, rule: Rule) -> None:
    context = dry_run.context
    if why := composition_fault(dry_run, rule):
        raise Fault(f"rule {rule.owner} does nothing now: {why}")
    if not context.index.of_rule(rule.owner) and not context.count_owned(rule.owner):
        assert isinstance(rule.spec, RuleSpec)
        reason, why = dry_run.no_source(rule)
        if reason != RuleReason.SOURCE_NOT_FOUND or rule.spec.source is None:
            why = f"{reason}: {why}"
        raise Fault(f"rule {rule.owner} does nothing now: {why}")


async def _rows(dry_run: DryRun, rule: Rule, wanted: ObjectName | None) -> RulePlan:
    context = dry_run.context
    found = FullSummary()
    await summarize_rule(context, rule, found)
    if wanted is not None:
        _narrow(dry_run, rule, found, wanted)
    rows = []
    state = context.rule_states[rule.key]
    state.deletions.condemned.update(found.unwanted)
    limit = asyncio.Semaphore(AT_ONCE)

    async def try_(key: CopyKey) -> PlanRow | None:
        async with limit:
            row = await _try(dry_run, key)
            return await _with_object(dry_run, key, row) if row and wanted else row

    due = [*found.due, *found.unsealed]
    mine = [key for key in due if key not in found.failures]
    tried = await asyncio.gather(*(try_(key) for key in [*mine, *found.unwanted]))
    rows += [row for row in tried if row]
    assert state.compiled is not None
    resource = context.kinds[state.compiled.resource].resource
    for key, (reason, message) in found.failures.items():
        action = RowAction.CONFLICT if reason == FailureReason.CONFLICT else RowAction.BLOCKED
        rows.append(PlanRow(action, resource.kind, key.namespace, key.name, reason, message))
    for index, row in enumerate(rows):
        note, reported = row.note, dry_run.reported(rule.key, row.namespace, row.name)
        if reported and dry_run.actor.who and not row.reason:  # possible for the user only
            note = dry_run.actor.tried(reported).strip()
        rows[index] = replace(row, group=resource.group, note=note)
    rows.sort(key=lambda row: (row.namespace, row.name))
    desired = found.desired - len(found.failures)
    changing = sum(row is not None for row in tried[: len(mine)])
    spec = state.compiled.spec
    notes = list(_notes_of(dry_run, rule, spec))
    if spec.rollout and any(row.action in _CHANGES for row in rows):
        notes.append(in_steps(spec.rollout, len(state.compiled.targets)))
    if not (found.desired or wanted):
        notes.insert(0, f"{RuleReason.NO_TARGETS}: {ready_conditions.no_targets(state.compiled)}")
    right = max(desired - changing, 0)
    return RulePlan(rule.owner, rows, right, notes=notes, wanted=wanted)


def _notes_of(dry_run: DryRun, rule: Rule, spec: RuleSpec) -> Iterator[str]:
    said = dry_run.client.ready_conditions.get(rule.key)
    if said and said.reason == RuleReason.DELETION_UNCONFIRMED:
        yield f"{said.reason}: {said.message}"
    if (composed := binding_of(dry_run.context, rule.owner)) is not None:
        yield f"From {composed.composition.to_string()}."
        for host, source, by in sorted(composed.composition.overridden):
            yield f"{host}: the credentials of {by} are used, not those of {source}."
        for source, why in sorted(composed.composition.passed_over):
            yield f"{source} is passed over: {why}."
    for field in dropped_fields(dry_run.context.rule_states[rule.key], rule, spec):
        yield f"Warning: the API server knows no field {field} and drops it."
    if not spec.legacy and (reached := warn_of_system_namespaces(spec.targets)):
        yield f"Warning: {reached}"


class _NoSuchCopyError(Fault):
    """A rule has no copy of the name that was asked for."""


def _narrow(dry_run: DryRun, rule: Rule, found: FullSummary, wanted: ObjectName) -> None:
    """Leave only one copy in a summary, and let the client keep its object.

    Raises:
        _NoSuchCopyError: the rule has no such copy.
    """
    context, state = dry_run.context, dry_run.context.rule_states[rule.key]
    assert state.compiled is not None
    kind = state.compiled.resource
    copies = [
        CopyKey(kind, place.name, binding.at(place).name)
        for binding in context.index.of_rule(rule.owner).values()
        for place in map(context.namespaces.get, binding.compiled.targets)
        if place is not None and binding.covers(place)
    ]

    def is_wanted(key: CopyKey) -> bool:  # of a template that can't be rendered there is no name
        return key.namespace == wanted.namespace and key.name in (wanted.name, "")

    copies += [*found.unwanted, *found.failures]
    if not any(map(is_wanted, copies)):
        near = _nearest(wanted, {ObjectName(key.namespace, key.name) for key in copies})
        advice = f"; did you mean {' or '.join(near)}?" if near else ""
        raise _NoSuchCopyError(f"rule {rule.owner} has no copy {wanted}{advice}")
    for keys in (found.due, found.unsealed, found.unwanted):
        keys[:] = filter(is_wanted, keys)
    found.failures = {key: why for key, why in found.failures.items() if is_wanted(key)}
    found.desired = int(not found.unwanted)
    dry_run.client.kept_path = context.kinds[kind].resource.path(*wanted)


def _nearest(wanted: ObjectName, copies: Iterable[ObjectName]) -> list[str]:
    """The most similar copies, of those in that namespace, else with that name, else of all."""
    known = sorted(copies)
    same = [one for one in known if one.namespace == wanted.namespace]
    same = same or [one for one in known if one.name == wanted.name] or known
    return get_close_matches(str(wanted), map(str, same[:NEAREST]), n=2, cutoff=0.5)


async def _try(dry_run: DryRun, key: CopyKey) -> PlanRow | None:
    """Reconcile one copy by a dry run, and return its row."""
    context, client = dry_run.context, dry_run.client
    resource = context.kinds[key.kind].resource
    planned = context.plan(key)
    record = context.kinds[key.kind].copies.get((key.namespace, key.name))
    unmanaged = record is None or not (record.owner or planned.act is Action.RESEAL)
    await dry_run.act(key)
    where = (resource.kind, key.namespace, key.name)
    problem = context.problems.get(key)
    writes = [
        *client.writes.get(resource.path(key.namespace), ()),
        *client.writes.get(resource.path(key.namespace, key.name), ()),
    ]
    mine = [
        (method, body)
        for method, body in writes
        if method != "POST" or (body or {}).get("metadata", {}).get("name") == key.name
    ]
    if problem:
        action = (
            RowAction.CONFLICT if problem.reason == FailureReason.CONFLICT else RowAction.BLOCKED
        )
        return PlanRow(action, *where, problem.reason, problem.text)
    methods = [method for method, _ in mine]
    if planned.act not in (Action.DELETE, Action.ASK_OWNER) and "DELETE" in methods:
        return PlanRow(RowAction.RECREATE, *where)
    action_ = action_of(methods, unmanaged=unmanaged)
    if action_ is None:
        return None
    wanted = next((body for method, body in mine if method in ("POST", "PUT")), None)
    keys = NO_KEYS
    if wanted is not None:
        if action_ is RowAction.CREATE:
            keys = diff(None, wanted)
        else:
            with suppress(errors.ApiError):
                keys = diff(await client.get(resource, key.namespace, key.name), wanted)
        if action_ is RowAction.UPDATE and not str(keys) and not dry_run.key_known:
            return None
    return PlanRow(action_, *where, keys=keys)


async def _with_object(dry_run: DryRun, key: CopyKey, row: PlanRow) -> PlanRow:
    """With the object that would be written, or is refused, and its difference."""
    client, wanted = dry_run.client, dry_run.client.kept
    if row.action is RowAction.RECREATE:
        wanted = await _rendered(dry_run, key)
    elif row.action in (RowAction.CONFLICT, RowAction.DELETE):
        wanted = None
    if wanted is None and row.action is not RowAction.DELETE:
        return row
    live = None
    with suppress(errors.NotFound):
        live = await client.get(dry_run.context.kinds[key.kind].resource, key.namespace, key.name)
    shown, lines = compare(live, wanted)
    return replace(row, object=shown, diff="\n".join(lines))


async def _rendered(dry_run: DryRun, key: CopyKey) -> Body | None:
    """The object that creates a copy anew; a dry run can't send it while the old one exists."""
    context, made = dry_run.context, list[Body]()
    winner, sealer = context.plan(key).winner, dry_run.context.sealer
    if winner is None or sealer is None:
        return None

    async def render() -> Outcome:
        content = winner.binding.content(winner.namespace)
        made.append(new_object(content, key, winner.owner, sealer))
        return Done()

    await winner.binding.with_content(key.namespace, render)
    return made[0] if made else None
