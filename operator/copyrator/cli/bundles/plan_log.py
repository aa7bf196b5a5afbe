"""A plan's operations and werf's diff, from the log of the Job that made it.

The status names the Job. Its owner, its pod and its log are checked before anything of them is
shown: whoever may create Jobs or pods in the namespace could make others.

Where the operator may not review permissions, `with_refusals` finds those that are missing: werf
quotes the API server's refusal of each dry run in the plan's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from copyrator.api import names, structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.text import said
from copyrator.bundles.features.drift.fields import DriftStatus
from copyrator.bundles.fields import BundleDefaults, parse_bundle, parse_status
from copyrator.bundles.jobs.outcome import is_owned
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER, JobKind
from copyrator.bundles.jobs.rights import ServiceAccount, list_missing, read_refused
from copyrator.bundles.jobs.werf_error import NO_ERROR
from copyrator.bundles.plans.fields import MAX_RISKY, PlanOutcome, PlanStatus, PlanSummary
from copyrator.bundles.plans.operations import (
    MAX_TEXT,
    NO_OBJECTS,
    BlockFault,
    Operation,
    Plan,
    RenderedObjects,
    StagedOperation,
    all_planned,
    block_lines,
    count_all,
    describe_counts,
    effects,
    read_block,
)
from copyrator.bundles.plans.record import id_of
from copyrator.bundles.plans.script import NONCE_AT
from copyrator.cli.core.objects import Body, pods_of
from copyrator.kube import errors
from copyrator.kube.resources import JOBS
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


DIFF_BYTES: Final = 1 << 20
"""Bytes of a diff that are shown."""
_LINE_BYTES: Final = 1024
"""More than the last line of a block has."""
_NO_ERRORS: Final = re.compile(
    f"^(?:{'|'.join(map(re.escape, NO_ERROR))})\r?(?:\n|\\Z)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class PlanLog:
    """What could be read."""

    operations: tuple[Operation, ...] | None = None
    """Of the deploy."""
    diff: str | None = None
    objects: RenderedObjects = NO_OBJECTS
    """Of the chart."""
    cut: bool = False
    """Whether the diff has only its first ``DIFF_BYTES``."""
    fault: str = ""
    """Why operations and diff are missing; empty where they aren't."""

    @property
    def planned(self) -> list[StagedOperation]:
        """The operations, then those at rollback and at uninstall."""
        return all_planned(self.operations or (), self.objects)


class _UnreadableError(Exception):
    """The log has no plan that may be shown; the message says why."""


async def read_plan_log(client: KubeClient, body: Body, plan: PlanSummary) -> PlanLog:
    """Read the log of the Job of a Bundle's plan with the outcome Planned, as the user may.

    A fault, such as a missing permission, is part of the result.
    """
    namespace = release_namespace(body)
    expected = _Expected(plan.job, (JobKind.PLAN,), lambda found: agreed(found, plan, namespace))
    return await _read_log(client, body, expected)


async def read_drift_log(client: KubeClient, body: Body) -> PlanLog:
    """The same of the check by which a Bundle is Drifted: its plan of what is deployed."""
    status, namespace = parse_status(body), release_namespace(body)
    expected = _Expected(
        status.part(DriftStatus).found_job,
        (JobKind.DRIFT, JobKind.PLAN),  # a plan of exactly what is deployed counts as a check
        lambda found: agreed_drift(found, status, namespace),
    )
    return await _read_log(client, body, expected)


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a status says of the plan that is to be read."""

    job: str | None
    kinds: Sequence[JobKind]
    agree: Callable[[Plan], tuple[Operation, ...] | None]
    """Its operations; None where the plan is another one."""


async def _read_log(client: KubeClient, body: Body, expected: _Expected) -> PlanLog:
    try:
        return await _read(client, body, expected)
    except _UnreadableError as error:
        return PlanLog(fault=str(error))
    except errors.NotFound:
        return PlanLog(fault=f"the Job {said(expected.job)} or its pod was deleted")
    except errors.Forbidden as error:
        return PlanLog(fault=f"{error.message}; ask an administrator for this permission")
    except errors.ApiError as error:
        return PlanLog(fault=error.message)


async def _read(client: KubeClient, body: Body, expected: _Expected) -> PlanLog:
    if not expected.job:
        raise _UnreadableError("the status names no Job")
    namespace, name = name_of(body).namespace, expected.job
    job = await client.get(JOBS, namespace, name)
    nonce = nonce_of(job, body, expected.kinds)
    pod = ended_pod(await pods_of(client, job), job)
    last = await client.read_log(
        namespace, pod, DEPLOY_CONTAINER, tail_lines=1, limit_bytes=_LINE_BYTES
    )
    lines = block_lines(last, nonce)
    if isinstance(lines, BlockFault):
        raise _fault(lines, name)
    block = await client.read_log(
        namespace, pod, DEPLOY_CONTAINER, tail_lines=lines, limit_bytes=MAX_TEXT
    )
    found = read_block(block, nonce)
    if isinstance(found, BlockFault):
        raise _fault(found, name)
    operations = expected.agree(found)
    if operations is None:
        raise _UnreadableError(f"the log of the Job {said(name)} has another plan")
    log = await client.read_log(namespace, pod, DEPLOY_CONTAINER, limit_bytes=DIFF_BYTES)
    diff = remove_no_errors(log.removesuffix(block)).strip("\n")
    return PlanLog(operations, diff, found.objects, cut=not log.endswith(block))


def remove_no_errors(log: str) -> str:
    """The log of a plan without the last line of werf's that reads as an error and is none."""
    return _NO_ERRORS.sub("", log)


def _fault(fault: BlockFault, job: str) -> _UnreadableError:
    return _UnreadableError(f"the Job {said(job)}: {fault.message}")


def nonce_of(job: Body, bundle: Body, kinds: Sequence[JobKind] = (JobKind.PLAN,)) -> str:
    """The nonce of a Bundle's plan Job of one of these kinds.

    Raises:
        _UnreadableError: the Job isn't one that plans this Bundle.
    """
    metadata, owner = job["metadata"], bundle["metadata"]
    labels = metadata.get("labels") or {}
    is_ours = is_owned(job, owner["uid"]) and labels.get(names.LABEL_BUNDLE) == owner["name"]
    if not (is_ours and labels.get(names.LABEL_JOB_KIND) in kinds):
        raise _UnreadableError(
            f"the Job {said(metadata['name'])} isn't a plan Job of this Bundle, by its owner or "
            "labels"
        )
    for container in job["spec"]["template"]["spec"]["containers"]:
        command: Sequence[Any] = container.get("command") or ()
        if container["name"] == DEPLOY_CONTAINER and len(command) > NONCE_AT:
            return str(command[NONCE_AT])
    raise _UnreadableError(f"the Job {said(metadata['name'])} has no container that plans")


def ended_pod(pods: Iterable[Body], job: Body) -> str:
    """The name of the Job's pod that planned successfully.

    Raises:
        _UnreadableError: there is none.
    """
    mine = [pod for pod in pods if is_owned(pod, job["metadata"]["uid"])]
    for pod in mine:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (status.get("state") or {}).get("terminated") or {}
            if status.get("name") == DEPLOY_CONTAINER and ended.get("exitCode") == 0:
                return name_of(pod).name
    shown = said(name_of(job).name)
    if mine:
        raise _UnreadableError(f"the pod of the Job {shown} hasn't ended with exit code 0")
    raise _UnreadableError(f"the pod of the Job {shown} was deleted")


def release_namespace(body: Body) -> str:
    """The namespace that the Bundle's release is in."""
    spec = parse_bundle(body, BundleDefaults())
    if isinstance(spec, BundleSpec):
        return spec.project_namespace
    return name_of(body).namespace


def agreed(found: Plan, plan: PlanSummary, namespace: str) -> tuple[Operation, ...] | None:
    """The operations, if they are those that the status counts and names; else None.

    The status has one more where the release's namespace is missing: werf creates it unplanned.
    """
    wanted = describe_counts(plan.counts)
    created = f"create ::Namespace:{namespace}"
    may_name_it = created in plan.risky or len(plan.risky) >= MAX_RISKY
    for missing in (None, namespace) if may_name_it else (None,):
        operations = effects(found, missing)
        if (
            found.revision == plan.revision
            and wanted == describe_counts(count_all(operations, found.objects))
            and set(map(str, all_planned(operations, found.objects))).issuperset(plan.risky)
        ):
            return operations
    return None


def agreed_drift(found: Plan, status: BundleStatus, namespace: str) -> tuple[Operation, ...] | None:
    """The operations, if the drifted objects of the status are among them; else None.

    Those of the newest check also have to have its ID.
    """
    check, drift = status.part(DriftStatus).check, status.part(DriftStatus)
    is_newest = check.job == drift.found_job and check.id is not None
    for missing in (None, namespace):
        operations = effects(found, missing)
        is_same = not is_newest or check.id == id_of(check, replace(found, exact=None), operations)
        if is_same and set(map(str, operations)).issuperset(drift.objects):
            return operations
    return None


_REFUSED: Final = "is forbidden: User "
_CHANGES: Final = ("+", "-")
"""How lines of an object's content begin."""


async def with_refusals(client: KubeClient, body: Body) -> Body:
    """A Bundle whose status has what its plan's blind applies name, where nothing was reviewed.

    Where the log can't be read, the Bundle as it is.
    """
    if not _is_asked(parse_status(body)):
        return body
    return with_refusals_of(
        body, (await read_plan_log(client, body, parse_status(body).part(PlanStatus))).diff
    )


def with_refusals_of(body: Body, diff: str | None) -> Body:
    """The same, by the diff of its plan."""
    spec, status = parse_bundle(body, BundleDefaults()), parse_status(body)
    if not diff or not isinstance(spec, BundleSpec) or not _is_asked(status):
        return body
    # The refusals in the plan's text, each once; no object's content.
    lines = (line.strip() for line in diff.splitlines() if _REFUSED in line)
    said = (line[line.index(_REFUSED) :] for line in lines if not line.startswith(_CHANGES))
    words = "\n".join(dict.fromkeys(said))
    missing = list_missing(read_refused(words, ServiceAccount.of(spec)))
    plan = structs.replace(status.part(PlanStatus), missing=missing)
    return {**body, "status": status.with_part(plan).to_dict()}


def _is_asked(status: BundleStatus) -> bool:
    plan = status.part(PlanStatus)
    return (
        plan.outcome == PlanOutcome.PLANNED
        and plan.missing_permissions is None
        and bool(plan.counts.apply)
    )


_BEGIN: Final = "┌ "
_END: Final = "└ "
_BAR: Final = "│"
_VERSION: Final = re.compile(r"Version: (v[0-9][0-9A-Za-z.+-]{0,30})")
"""How werf's output begins."""
_ALWAYS: Final = re.compile(
    r"    (werf\.io/version: v[0-9][0-9A-Za-z.+-]{0,30}"
    r'|project\.werf\.io/(env|name): ("[A-Za-z0-9._-]{0,63}"|[A-Za-z0-9._-]{1,63}))'
)
"""Annotations of each object, in its metadata."""
_UPDATED: Final = "    werf.io/version: "
_MANAGED: Final = "  managedFields:"
_KEY: Final = re.compile(r"( *)([^\s].*?):(\s.*)?")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._-]+")
"""A field of a Secret; YAML writes a key of over 128 characters on a line of its own."""
_FETCH: Final = re.compile(r'(Pulling|Exporting) bundle ".{1,600}"')
"""Frames of werf about the bundle itself, which stand before its plan."""


def fold(diff: str) -> tuple[str, int]:
    """The diff without what is always there, and how many lines were left out.

    werf adds its version and the project's name to each object, and shows the managedFields of what
    it deletes (docs/facts/werf-output, plan-*-whole.txt). A chart can't hide anything else that
    way: of an object that is shown whole, these lines count only in their place of its metadata; of
    an update, which has no places, only the version of the very werf that made the plan.
    """
    lines = diff.split("\n")
    version = next((found[1] for one in lines if (found := _VERSION.fullmatch(one))), None)
    kept: list[str] = []
    number, at, has_begun = 0, 0, False
    while at < len(lines):
        if not has_begun and (end := _end_of_fetch(lines, at)) is not None:
            number += end + 1 - at
            at = end + 1
            continue
        has_begun = has_begun or lines[at].startswith(_BEGIN)
        end = _end_of_block(lines, at)
        if end is None:
            kept.append(lines[at])
            at += 1
            continue
        content = lines[at + 1 : end]
        is_whole = {line[2:3] for line in content} in ({"+"}, {"-"})
        left = list(_whole(content) if is_whole else _update(content, version))
        number += len(content) - len(left)
        kept += [lines[at], *left, lines[end]]
        at = end + 1
    return "\n".join(kept), number


def _end_of_fetch(lines: Sequence[str], begin: int) -> int | None:
    """The last line, with the empty ones after it, of werf's frame about the bundle's download."""
    title = lines[begin].removeprefix(_BEGIN)
    if not (lines[begin].startswith(_BEGIN) and _FETCH.fullmatch(title)):
        return None
    for at in range(begin + 1, len(lines)):
        if lines[at].startswith(f"{_END}{title} (") and lines[at].endswith(" seconds)"):
            rest = range(at + 1, len(lines))
            return next((one for one in rest if lines[one]), len(lines)) - 1
        if lines[at].startswith((_BEGIN, _BAR)):
            return None  # not of the bundle's download: it is shown
    return None


def _end_of_block(lines: Sequence[str], begin: int) -> int | None:
    """The last line of the block that begins here; None where none does, or it isn't whole."""
    if not lines[begin].startswith(_BEGIN):
        return None
    last = _END + lines[begin].removeprefix(_BEGIN)
    for at in range(begin + 1, len(lines)):
        if lines[at] == last:
            return at
        if not lines[at].startswith(_BAR):
            return None
    return None


def _whole(content: Sequence[str]) -> Iterator[str]:
    """Of an object that is shown whole: without werf's annotations and managedFields."""
    top = second = ""
    for line in content:
        text = line[4:]
        found = _KEY.fullmatch(text)
        if not text.startswith(" "):
            top, second = (found[2] if found else text), ""
        elif found and len(found[1]) == 2 and not found[2].startswith("- "):
            second = found[2]
        if top == "metadata" and (
            (second == "annotations" and _ALWAYS.fullmatch(text))
            or (
                second == "managedFields"
                and (text == _MANAGED or text.startswith(("  - ", "    ")))
            )
        ):
            continue
        yield line


def _update(content: Sequence[str], version: str | None) -> Iterator[str]:
    """Of an update: without the change of werf's version, if that is the one that plans."""
    now = f"+ {_UPDATED}{version}"
    kept: list[str] = []
    for line in content:
        text = line[2:]
        former = kept[-1][2:] if kept else ""
        is_version = former.startswith(f"- {_UPDATED}") and bool(_ALWAYS.fullmatch(former[2:]))
        if version is not None and text == now and is_version:
            kept.pop()
            continue
        kept.append(line)
    if len(kept) < len(content) and not any(line[2:3] in ("+", "-") for line in kept):
        return iter(())  # nothing else changed, so what stood around it is no news
    return iter(kept)


_HIDDEN: Final = "<hidden"
"""How werf begins what stands in place of contents."""
_IN_CLEAR: Final = ("apiVersion", "immutable", "kind", "type")
"""Fields of a Secret."""


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """What werf shows of one object."""

    title: str
    """``Update ConfigMap/a (namespace=b), then …``; a namespace only where it isn't the release's,
    and no API group: two objects may have equal titles."""
    lines: tuple[str, ...]
    """Each begins with ``+ ``, ``- `` or two spaces; or it says what isn't shown, and why."""

    @property
    def kind(self) -> str:
        """The object's."""
        return self.title.partition("/")[0].rpartition(" ")[2]

    @property
    def name(self) -> str:
        """The object's."""
        return self.title.partition("/")[2].split(" (", 1)[0].split(",", 1)[0]

    @property
    def is_hidden(self) -> bool:
        """Whether contents of it aren't shown."""
        return any(
            line.startswith(_HIDDEN) or line[2:].lstrip().partition(": ")[2].startswith(_HIDDEN)
            for line in self.lines
        )


def _without_value(line: str, name: str) -> str:
    if line.startswith("<"):  # werf's words in place of contents; they may quote a value
        return line if line.startswith(_HIDDEN) else "<hidden>"
    sign, text = line[:2], line[2:]
    found = _KEY.fullmatch(text)
    indent, key, value = found.groups() if found else ("", "", "")
    if not _PLAIN_KEY.fullmatch(key):
        found = None
    value = (value or "").strip()
    is_kept = not value or (key == "name" and value == name)
    if found and not indent and (is_kept or key in _IN_CLEAR):
        return line
    if found and len(indent) == 2:
        return line if is_kept else f"{sign}{indent}{key}: <hidden>"
    return f"{sign}{' ' * (len(text) - len(text.lstrip()))}<hidden>" if text.strip() else line


def hide_secrets(diff: str) -> str:
    """The diff without values of Secrets: a chart can make werf print them (docs/facts/werf.md).

    Where another line stands among those of a Secret, the rest of these are without values, too.
    """
    name: str | None = None
    lines = diff.split("\n")
    for at, line in enumerate(lines):
        if line.startswith((_BEGIN, _END)):
            found = ObjectDiff(line.removeprefix(_BEGIN), ())
            name = found.name if line.startswith(_BEGIN) and found.kind == "Secret" else None
        elif name is not None and line.startswith(_BAR):
            bar, content = (line[:2], line[2:]) if line[1:2] == " " else (line[:1], line[1:])
            lines[at] = bar + _without_value(content, name)
    return "\n".join(lines)


def split(diff: str) -> tuple[list[ObjectDiff], list[str]]:
    """The objects of a diff, and the lines that are of none; an object may be cut at the end."""
    objects: list[ObjectDiff] = []
    others: list[str] = []
    lines, at = diff.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        while end < len(lines) and lines[end].startswith(_BAR):
            end += 1
        is_closed = end < len(lines) and lines[end] == _END + line.removeprefix(_BEGIN)
        if line.startswith(_BEGIN):
            content = (one.removeprefix(_BAR).removeprefix(" ") for one in lines[at + 1 : end])
            found = ObjectDiff(line.removeprefix(_BEGIN), tuple(content))
            if is_closed or found.lines:
                objects.append(found)
                at = end + is_closed
                continue
        others.append(line)
        at += 1
    return objects, others
