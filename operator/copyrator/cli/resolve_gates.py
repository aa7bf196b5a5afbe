"""The gates of a Bundle, as `resolve --bundle` judges versions by them.

What they judge by is read from the cluster as far as the user may; a gate for which something is
missing isn't judged, and the answer says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from copyrator.api import names
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.fields import InvalidSpec
from copyrator.api.freeze import Freeze
from copyrator.api.keys import BundleKey
from copyrator.api.seen_time import ALL_SEEN, SeenTime, parse_seen
from copyrator.api.times import parse_time
from copyrator.bundles.bundle import BundleCache, read_entry
from copyrator.bundles.gates import age, promotion, signature
from copyrator.bundles.gates import gate as gates
from copyrator.bundles.gates.catalog import DEPENDS_ON, FREEZE, all_gates
from copyrator.bundles.gates.gate import NO_SOURCES, Candidate, Facts, Gate, GateResult, Sources
from copyrator.bundles.inputs import relations
from copyrator.bundles.version.candidates import deployed_tag
from copyrator.cli import freeze_state
from copyrator.cli.cluster import Target
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint
from copyrator.cli.installation import Installation, find_installation
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import BUNDLES, LEASES

NOT_JUDGED = "NotJudged"
"""State of a gate, beside those of ``status.gates``."""
_GATES = all_gates()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleGates:
    """A Bundle's gates, and what they judge by."""

    spec: BundleSpec
    status: BundleStatus
    now: datetime
    sources: Sources = NO_SOURCES
    unready: tuple[str, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    """Gates for which something can't be read, each with the reason."""

    @property
    def deployed(self) -> str | None:
        """The deployed tag, of the repository that the spec names."""
        return deployed_tag(self.status, self.spec.reference)

    def versions(self, candidate: Candidate) -> tuple[GateResult, ...]:
        """The verdicts of the version gates that can be judged here."""
        return self._judge(_GATES.version, candidate)

    def document(self, chosen: Candidate | None, *, signed: bool) -> list[dict[str, Any]]:
        """The gates that the Bundle requires, in order; those that depend on time, as of now."""
        judged: tuple[GateResult, ...] = ()
        if chosen is not None:
            judged = (*self.versions(chosen), *self._judge(_GATES.moment, chosen))
        found = {one.name or "": one.to_dict() for one in gates.record_verdicts(judged)}
        for name, why in self._unjudged(signed=signed):
            found[name] = {"name": name, "state": NOT_JUDGED, "message": why}
        return [found[gate.name] for gate in _GATES if gate.name in found]

    def _unjudged(self, *, signed: bool) -> Iterator[tuple[str, str]]:
        commands = {"verify": hint("verify"), "plan": hint("plan", "bundle")}
        for gate in _GATES:
            is_judged = not gate.unjudged or (signed and gate.name == signature.GATE.name)
            if not is_judged and gate.concerns(self.spec):
                yield gate.name, gate.unjudged.format(**commands)
        yield from self.unread

    def _judge(self, asked: tuple[Gate, ...], candidate: Candidate) -> tuple[GateResult, ...]:
        missing = {name for name, _ in self.unread}
        facts = Facts(
            self.status,
            gates.occasion(None, self.status.deployed.digest, candidate.digest),
            first_seen=age.first_seen(self.status, candidate),
            sources=self.sources,
            unready=self.unready,
            freezes=self.freezes,
        )
        readable = [one for one in asked if not one.unjudged and one.name not in missing]
        return gates.judge(readable, self.spec, candidate, facts, self.now)


async def gates_of(target: Target, text: str) -> BundleGates:
    """The gates of a Bundle, ``namespace/name`` or a name.

    Raises:
        Fault: there is none of that name, or its spec isn't valid.
        ApiError: it can't be read.
    """
    namespace, name = target.locate(text)
    async with target.connect() as client:
        installation = await find_installation(client)
        return await _read(client, installation, BundleKey(namespace, name))


async def _read(client: KubeClient, installation: Installation, key: BundleKey) -> BundleGates:
    settings = installation.settings
    defaults = BundleDefaults(interval=settings.timer_interval, jobs_ttl=settings.jobs_ttl)
    try:
        body = await client.get(BUNDLES, key.namespace, key.name)
    except errors.NotFound:
        raise Fault(f"there is no Bundle {key.name} in the namespace {key.namespace}") from None
    entry = read_entry(body, defaults)
    spec = entry.spec
    if isinstance(spec, InvalidSpec):
        raise Fault(f"Bundle {key.namespace}/{key.name}: {spec}")
    cache, unread = BundleCache(), dict[str, str]()
    cache.take(entry)
    for gate, named in (
        (promotion.NAME, entry.promoted_from),
        (DEPENDS_ON.name, entry.depends_on),
    ):
        for other in named:
            try:
                found = await client.get(BUNDLES, other.namespace, other.name)
            except errors.NotFound:
                continue
            except errors.ApiError as error:
                unread[gate] = f"Bundle {other.namespace}/{other.name}: {error.message}"
                continue
            cache.take(read_entry(found, defaults))
    frozen = await freeze_state.found(
        client, installation, dict.fromkeys((key.namespace, spec.project_namespace))
    )
    if frozen.denied:
        unread[FREEZE.name] = frozen.denied[0]
    now = datetime.now(UTC)
    seen = ALL_SEEN
    if spec.promote_from:
        seen = await _seen_time(client, installation, unread)
    return BundleGates(
        spec=spec,
        status=entry.status,
        now=now,
        sources=relations.sources(cache, spec, lambda: seen.as_of(now)),
        unready=relations.find_unready(cache, spec),
        freezes=frozen.freezes,
        unread=tuple(unread.items()),
    )


async def _seen_time(
    client: KubeClient, installation: Installation, unread: dict[str, str]
) -> SeenTime:
    """The time that the operator observed: without it no soak can be computed."""
    settings = installation.settings
    home = settings.lease_namespace or installation.namespace
    try:
        lease = await client.get(LEASES, home, settings.lease_name)
    except errors.ApiError as error:
        unread[promotion.NAME] = f"the time that the operator saw isn't known: {error.message}"
        return ALL_SEEN
    found = parse_seen(
        (lease["metadata"].get("annotations") or {}).get(names.ANN_SEEN_TIME),
        parse_time((lease.get("spec") or {}).get("renewTime")),
    )
    if found is None:
        unread[promotion.NAME] = f"the Lease {home}/{settings.lease_name} has no record of it"
    return found or ALL_SEEN
