"""A Bundle's page: what is read for it, and the values of ``templates/bundle.html``.

Rules and Bundles come from watches. Events, the objects of the release and the diffs of sections
are read when the page is opened, with the user's permissions. A page that is open is updated with
each change in the cluster: meanwhile the objects are read again only after a while, and the log of
an ended Job, which doesn't change, once.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ConditionType
from copyrator.api.keys import ObjectName
from copyrator.api.kstatus import Result, Status, compute
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import (
    Detail,
    format_duration,
    format_time,
    parse_time,
    printable,
    said,
    short_digest,
    time_since,
    time_until,
)
from copyrator.bundles.features.attest.fields import AttestSpec
from copyrator.bundles.jobs.identity import other_manager, release_of
from copyrator.bundles.words import (
    Environment,
    Place,
    Section,
    StepState,
    Tone,
    lines_at,
    load_words,
    rows_at,
)
from copyrator.cli.bundles.permissions import explain_permissions
from copyrator.cli.bundles.plan_log import PlanLog, read_drift_log
from copyrator.cli.bundles.plan_page import SectionDiffs
from copyrator.cli.core.cluster import ahead, all_of
from copyrator.cli.core.objects import Body, listed, skipped
from copyrator.cli.get.describe import event_rows
from copyrator.cli.ui.parts import (
    INDENT,
    SIGNS,
    STATE_TONES,
    Arrow,
    Box,
    Drawing,
    condition_rows,
    segment,
)
from copyrator.cli.ui.promotion_path import PlacedStage, PromotionGraph, PromotionPath
from copyrator.cli.ui.questions import actions_of
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView, describe_next_poll, describe_source
from copyrator.cli.view.overview import OverviewRow, Snapshot, bundle_row
from copyrator.cli.view.versions import timeline
from copyrator.cli.view.why_bundle import explain_next, list_steps, waiting_version
from copyrator.kube import errors
from copyrator.kube.resources import (
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    STATEFULSETS,
    Discovery,
    Resource,
)
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


OBJECTS: Final = 200
"""Objects of a release that a page lists."""
OBJECTS_AGE: Final = 60.0
"""Seconds for which objects that were read are shown by an open page."""
KEPT: Final = 16
"""Bundles of which the objects that were read are kept."""
TEXT: Final = 2000
"""Characters of a message that a page shows."""
_BOX: Final = 264
_GAP: Final = 24
"""Pixels between two boxes: room for an arrow."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time for a page: when it is, and how long before or after now."""

    stamp: str
    shown: str
    distance: str
    """``in 2h``, ``3d ago``."""


def moment(stamp: object, now: datetime) -> Moment | None:
    """A time of a status; None where it isn't one."""
    at = parse_time(stamp)
    if at is None:
        return None
    distance = time_until(stamp, now) if at > now else f"{time_since(stamp, now)} ago"
    return Moment(format_time(at), f"{at:%Y-%m-%d %H:%M} UTC", distance)


_TONES: Final[dict[str, str]] = dict(STATE_TONES) | {
    state: found
    for found, states in {
        "good": (*(StepState.PASSED, Status.CURRENT),),
        "waiting": (*(StepState.WAITING, Status.IN_PROGRESS, Status.TERMINATING, Status.UNKNOWN),),
        "fault": (*(StepState.REFUSED, StepState.FAILED, Status.FAILED),),
    }.items()
    for state in states
}


def tone(state: str) -> str:
    """The tone of the state of a step, a Bundle, a version or an object."""
    return _TONES.get(state, "")


def sign(state: str) -> str:
    """The sign beside the state's word."""
    return SIGNS[tone(state)]


@dataclass(frozen=True, slots=True)
class ReleaseObject:
    """An object of a release; its message says why it isn't current."""

    kind: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class ObjectGroup:
    """The objects of a release with the same health."""

    state: str
    """Empty: of kinds that have none."""
    count: int
    rows: Sequence[ReleaseObject]
    """The first of them."""


@dataclass(frozen=True, slots=True)
class ReleaseReading:
    """The objects of a release, as they were at a time."""

    groups: Sequence[ObjectGroup] = ()
    note: str = ""
    """What couldn't be read."""
    read_at: float = 0.0
    """By the loop's clock."""


NO_DIFFS: Final = SectionDiffs()


@dataclass(frozen=True, slots=True)
class Readings:
    """What was read for a page; a report has nothing of it."""

    objects: ReleaseReading | None = None
    diffs: SectionDiffs = NO_DIFFS
    events: Sequence[Body] = ()
    missing: str = ""
    """Why Events are missing, if they are."""


@dataclass(slots=True)
class BundleReader:
    """Reads what no watch has, for the pages of one user."""

    client: KubeClient
    _objects: dict[str, ReleaseReading] = field(default_factory=dict)
    """By the Bundle's uid; the last one that was read is at the end."""
    _diffs: dict[str, SectionDiffs] = field(default_factory=dict)
    """Likewise."""

    async def read(self, body: Body, seconds: float, *, is_opened: bool) -> Readings:
        """Read side by side what the page shows; what doesn't come in so many seconds is missing.

        Events, which every page has, aren't among it.

        ``is_opened``: the page is opened, not updated.
        """
        return Readings(
            *await asyncio.gather(
                self._read_objects(body, seconds, is_opened=is_opened),
                self._read_diffs(body, seconds, is_opened=is_opened),
            )
        )

    async def _read_objects(self, body: Body, seconds: float, *, is_opened: bool) -> ReleaseReading:
        now, uid = asyncio.get_running_loop().time(), str(body["metadata"].get("uid"))
        known = self._objects.get(uid)
        if known is not None and not is_opened and now - known.read_at < OBJECTS_AGE:
            return known
        bodies: Sequence[Body] = ()
        note = f"The release's objects aren't shown: no answer within {format_duration(seconds)}."
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async with ahead(Discovery(self.client).find_listable()) as kinds:
                    bodies, note = await release_objects(self.client, body, kinds)
        groups = await asyncio.to_thread(group_objects, bodies)
        return _keep(self._objects, uid, ReleaseReading(groups, note, now))

    async def _read_diffs(self, body: Body, seconds: float, *, is_opened: bool) -> SectionDiffs:
        """The diffs of a section; what an ended Job's log has is read once."""
        view, uid = BundleView(body, datetime.now(UTC)), str(body["metadata"].get("uid"))
        section = next((one for one in _sections(view) if one.job and one.objects), None)
        if section is None:
            return NO_DIFFS
        known = self._diffs.get(uid)
        if known and known.job == section.job and not (known.fault and is_opened):
            return known
        log = PlanLog(fault=f"no answer within {format_duration(seconds)}")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                log = await read_drift_log(self.client, body)
        found = await asyncio.to_thread(SectionDiffs.of, view, section, log)
        return _keep(self._diffs, uid, found)


K = TypeVar("K", ReleaseReading, SectionDiffs)


def _keep(known: dict[str, K], uid: str, found: K) -> K:
    """Keep what was read, of at most KEPT Bundles."""
    known.pop(uid, None)
    known[uid] = found
    if len(known) > KEPT:
        del known[next(iter(known))]
    return found


def _sections(view: BundleView) -> Iterator[Section]:
    return filter(None, (one.section(view) for one in load_words()))


def bundle_values(seen: Snapshot, view: BundleView, found: Readings) -> dict[str, Any]:
    """The values of a Bundle's page."""
    graph = PromotionGraph(seen.bundles, view.now)
    actions = actions_of(
        "bundles",
        view.body,
        decides=any(lines_at(view, Place.LEAD)),
        promotes=_is_promoted(view, graph),
    )
    return {
        "title": f"Bundle {view.name}",
        "within": "/bundles",
        "seen": seen,
        "path": bundle_path(view.name),
        "one": bundle_parts(view, graph, found.diffs),
        "objects": found.objects,
        "health": " ".join(lines_at(view, Place.OBJECTS)),
        "log_tail": printable(view.status.last_error.log_tail or ""),
        "log_at": moment(view.status.last_error.time, view.now),
        "has_plan": any(rows_at(view, Place.PLAN)),
        "events": event_rows(reversed(found.events), view.now),
        "missing": found.missing,
        "actions": list(actions),
    }


def _is_promoted(view: BundleView, graph: PromotionGraph) -> bool:
    """Whether what it runs may be promoted: here, or by what it attests to other clusters."""
    spec = view.spec
    attests = isinstance(spec, BundleSpec) and spec.uses(AttestSpec)
    return attests or view.name in graph.targets or names.ANN_PROMOTE_TO in view.annotations


def bundle_parts(
    view: BundleView, graph: PromotionGraph, diffs: SectionDiffs = NO_DIFFS, *, suffix: str = ""
) -> dict[str, Any]:
    """What a page and a report show of a Bundle, for ``templates/bundle_parts.html``.

    ``suffix``: of identifiers, where several Bundles are in one document.
    """
    spec, now = view.spec, view.now
    path, row = graph.path(view.name), bundle_row(view)
    waiting = waiting_version(view.status) or ""
    return {
        "row": row,
        "suffix": suffix,
        "moment": lambda stamp: moment(stamp, now),
        "tone": tone,
        "sign": sign,
        "digest": short_digest,
        "sentence": _sentence(view, row),
        "next": waiting if waiting != said(view.status.deployed.version) else "",
        "steps": list_steps(view, spec) if isinstance(spec, BundleSpec) else (),
        "earliest": " ".join(
            explain_next(spec, view.status, now) if isinstance(spec, BundleSpec) else ()
        ),
        "timeline": timeline(view, graph.sources_of(view.name)),
        "path": path,
        "drawing": draw_path(path, f"promotion{suffix}", static=bool(suffix)),
        "plan": list(rows_at(view, Place.DECISION)),
        "sections": [_section_values(view, one, diffs) for one in _sections(view)],
        "fields": list(_details(view)),
        "conditions": condition_rows(view.body, view.now),
    }


def _sentence(view: BundleView, row: OverviewRow) -> str:
    """What matters most: the fault, or what it waits for, else what runs and since when."""
    there = view.status.deployed
    if row.state is rows.State.WAITING and (lead := next(lines_at(view, Place.LEAD), "")):
        return lead
    if row.message:
        return printable(row.message)
    if there.version:
        since = time_since(there.time, view.now)
        how_long = f"has been deployed for {since}" if parse_time(there.time) else "is deployed"
        return f"{said(there.version)} {how_long}."
    return "Nothing is deployed yet."


def _details(view: BundleView) -> Iterator[Detail]:
    """What the other parts of the page don't have."""
    spec = view.spec
    yield from describe_source(view)
    yield from rows_at(view, Place.TRUST)
    yield Detail("Next poll", describe_next_poll(view))
    yield from rows_at(view, Place.PREVIEW, Place.HISTORY)
    if not isinstance(spec, InvalidSpec) and (lines := list(explain_permissions(view, spec))):
        yield Detail("Permissions", below=lines)
    error = view.status.last_error
    if error.message and error.message not in view.trouble:
        yield Detail("Last error", f"{said(error.reason)}: {said(error.message, TEXT)}")
    withheld = view.status.condition(ConditionType.SETTINGS_WITHHELD)
    if withheld.is_true:
        yield Detail("Settings withheld", said(withheld.message, TEXT))
    yield Detail("Age", time_since(rows.created(view.body), view.now))


_ORDER: Final = (
    *(Status.FAILED, Status.UNKNOWN, Status.TERMINATING, Status.IN_PROGRESS, Status.CURRENT, ""),
)


def group_objects(bodies: Iterable[Body]) -> list[ObjectGroup]:
    """Objects by their health, the worst first, with at most OBJECTS of them; pure."""
    judged: list[tuple[int, str, str, str]] = []
    for body in bodies:
        health = health_of(body)
        order = _ORDER.index(health.status if health else "")
        message = said(health.message, TEXT) if health and health.message else ""
        judged.append((order, said(body.get("kind")), name_of(body).name, message))
    judged.sort()
    groups, left = [], OBJECTS
    for order, members in groupby(judged, key=itemgetter(0)):
        found = list(members)
        listed = [ReleaseObject(*one[1:]) for one in found[:left]]
        groups.append(ObjectGroup(_ORDER[order], len(found), listed))
        left -= len(listed)
    return groups


def _section_values(view: BundleView, section: Section, found: SectionDiffs) -> dict[str, Any]:
    """The part of a page, with the diffs that were read."""
    diffs = dict(found.diffs)
    logs = ["kubectl", "logs", "-n", view.name.namespace, f"job/{said(section.job)}"]
    return {
        "section": section,
        "at": moment(section.at, view.now),
        "objects": [(said(one), diffs.get(said(one))) for one in section.objects],
        "fault": found.fault,
        "command": shlex.join(logs),
    }


def draw_path(path: PromotionPath, name: str, *, static: bool = False) -> Drawing | None:
    """The promotion path from top to bottom; None where there is none."""
    if not path.stages:
        return None
    boxes: dict[ObjectName, Box] = {}
    environments: list[tuple[Box, ObjectName]] = []
    y = 0.0
    for stage in path.stages:
        for one in stage.environments:
            outside = Box(
                (stage.indent + 1) * INDENT,
                y,
                _BOX,
                list(_describe(one)),
                tone="" if one.is_missing is None else _evidence_tone(one),
            )
            environments.append((outside, stage.name))
            y += outside.height + _GAP
        box = Box(
            stage.indent * INDENT,
            y,
            _BOX,
            list(_texts(stage)),
            tone=tone(stage.state),
            href="" if static or stage.is_subject else bundle_path(stage.name),
            done=stage.soak.done if stage.soak else None,
            is_marked=stage.is_subject,
        )
        boxes[stage.name] = box
        y += box.height + _GAP
    arrows = [
        Arrow(start, end, is_angled=start.x != end.x)
        for start, end in (
            *((box, boxes[stage]) for box, stage in environments),
            *((boxes[one], boxes[other]) for one, other in path.links),
        )
    ]
    drawn = [*(box for box, _ in environments), *boxes.values()]
    return Drawing(name, "The promotion path", drawn, arrows)


def _describe(environment: Environment) -> Iterator[str]:
    yield f"environment {environment.name}"
    if environment.is_missing is not None:
        text = "is missing" if environment.is_missing else "counts"
        yield f"{SIGNS[_evidence_tone(environment)]} evidence {text}"
    yield environment.asked
    if environment.where:
        yield environment.where


def _evidence_tone(environment: Environment) -> Tone:
    return Tone.WAITING if environment.is_missing else Tone.GOOD


def bundle_path(name: ObjectName) -> str:
    """The path of a Bundle's page."""
    return f"/bundles/{segment(name.namespace)}/{segment(name.name)}"


def _texts(stage: PlacedStage) -> Iterator[str]:
    yield str(stage.name)
    yield f"{stage.version}  {sign(stage.state)} {stage.state}"
    if stage.soak:
        yield stage.soak.text
    if stage.attests:
        yield stage.attests
    if stage.more:
        more = f" and {len(stage.more) - 1} more" if len(stage.more) > 1 else ""
        yield f"also from {stage.more[0]}{more}"


_JUDGED = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, JOBS)
"""The kinds that have a health."""
SIDE_BY_SIDE = 16
"""Kinds that are listed at the same time."""


async def release_objects(
    client: KubeClient, body: Body, kinds: Awaitable[Sequence[Resource]]
) -> tuple[list[Body], str]:
    """The objects of a Bundle's release in its namespace, and what couldn't be read of them."""
    view = BundleView(body, datetime.now(UTC))
    spec = view.spec
    there = view.status.deployed
    if isinstance(spec, InvalidSpec) or not (there.digest or view.status.deploy.digest):
        return [], ""
    if there.namespace not in (None, "", spec.project_namespace):
        return [], ""
    if view.cluster:
        return [], f"The release's objects aren't shown: they are in {view.cluster}."
    manager = other_manager(body["metadata"].get("labels") or {}, spec.env) or names.HELM
    selector = f"{names.LABEL_MANAGED_BY}={manager}"
    place, limit = spec.project_namespace, asyncio.Semaphore(SIDE_BY_SIDE)
    denied: list[errors.Forbidden] = []
    failed: list[str] = []

    async def read(resource: Resource) -> list[dict[str, Any]]:
        only = resource not in _JUDGED
        try:
            async with limit:
                return await listed(client, resource, place, selector=selector, metadata_only=only)
        except errors.Forbidden as error:
            denied.append(error)
        except errors.ApiError as error:
            failed.append(f"{resource.key}: {error}")
        return []

    try:
        lists = await all_of(map(read, await kinds))
    except errors.ApiError as error:
        return [], f"The release's objects aren't shown: the discovery of kinds failed: {error}"
    name = view.name.name
    found = [one for part in lists for one in part if release_of(one["metadata"]) == name]
    notes = [skipped(denied), *(f"Not shown: {text}." for text in failed)]
    unique = {str(one["metadata"].get("uid")): one for one in found}
    return list(unique.values()), " ".join(filter(None, notes))


def health_of(body: Body) -> Result | None:
    """The health of an object of a release; None where its kind has none."""
    kind = (body["apiVersion"], body["kind"])
    if any(kind == (one.api_version, one.kind) for one in _JUDGED):
        return compute(str(body["kind"]), body)
    if "deletionTimestamp" in body["metadata"]:
        return Result(Status.TERMINATING, "it is being deleted")
    return None
