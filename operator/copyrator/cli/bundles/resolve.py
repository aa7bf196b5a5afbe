"""`copyrator resolve`: the tag that a version selects in a registry, and why not the others.

With `--bundle` its gates judge versions, too, by what the user may read, and by the attestations in
the registry; a gate for which something is missing isn't judged, and the answer says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.api.object_refs import LocalObjectRef
from copyrator.api.reasons.bundles import BundleReason, Rejection
from copyrator.api.schema import InvalidSpec, SpecError
from copyrator.api.seen_time import ALL_SEEN, SeenTime, parse_seen
from copyrator.api.tagfilter import FilterError
from copyrator.api.text import format_time, parse_time, printable
from copyrator.api.verify import refs_of
from copyrator.api.version_range import ExactTag, VersionError, VersionRange, parse_version
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.bundle import BundleCache, read_entry
from copyrator.bundles.engine.gate import (
    MAX_CANDIDATES,
    NOTHING_FOUND,
    Candidate,
    Facts,
    Findings,
    Gate,
    GateResult,
    Passed,
    Waiting,
    hold_back,
    load_gates,
)
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.freeze.fields import FreezeFindings
from copyrator.bundles.features.freeze.words import freezes_in, gap
from copyrator.bundles.features.promotion.attesters import NO_ATTESTERS, Attesters, read_attesters
from copyrator.bundles.features.promotion.fields import PROMOTION_GATE, PromotionSpec
from copyrator.bundles.features.signatures.fields import SIGNATURE_GATE, SignaturesSpec
from copyrator.bundles.features.signatures.verdicts import verdict
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.tags import Choice, Criteria, deployed_tag, explain
from copyrator.cli.bundles.clouds import bundles_credential, registries
from copyrator.cli.bundles.registry import (
    SignatureJudge,
    asked_by,
    credential_of,
    in_options,
    registry_options,
    repository_of,
    trust_options,
)
from copyrator.cli.core.beside import read_beside
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import Installation, find_installation
from copyrator.cli.core.output import Column, Format, Kind, Table, dump, output_option, prose, typed
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, LEASES
from copyrator.oci.errors import RegistryError, RepositoryNotFound, TagNotFound
from copyrator.signatures.model import DeployedEvidence

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

NOT_JUDGED = "NotJudged"
"""State of a gate, beside those of ``status.gates``."""
_GATES = load_gates()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleGates:
    """A Bundle's gates, and what they judge by."""

    spec: BundleSpec
    status: BundleStatus
    now: datetime
    findings: Findings = NOTHING_FOUND
    unread: tuple[tuple[str, str], ...] = ()
    """Gates for which something can't be read, each with the reason."""
    attesters: Attesters = NO_ATTESTERS
    evidence: dict[str, DeployedEvidence] = field(default_factory=dict)
    """What is attested of each digest that was asked about."""

    async def read_evidence(self, judge: SignatureJudge, digest: str) -> None:
        """Read what is attested of a digest, where the Bundle requires that."""
        if self.attesters and digest not in self.evidence:
            self.evidence[digest] = await judge.evidence(digest, self.attesters)

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
            is_judged = not gate.unjudged or (signed and gate.name == SIGNATURE_GATE)
            if not is_judged and gate.concerns(self.spec):
                yield gate.name, gate.unjudged.format(**commands)
        yield from self.unread

    def _judge(self, asked: tuple[Gate, ...], candidate: Candidate) -> tuple[GateResult, ...]:
        missing = {name for name, _ in self.unread}
        facts = Facts(
            self.status,
            gates.occasion(None, self.status.deployed.digest, candidate.digest),
            findings=self.findings.including((self.evidence.get(candidate.digest),)),
        )
        readable = [one for one in asked if not one.unjudged and one.name not in missing]
        return gates.judge(readable, self.spec, candidate, facts, self.now)


async def _read(client: KubeClient, installation: Installation, key: BundleKey) -> BundleGates:
    """The gates of a Bundle.

    Raises:
        Fault: there is none of that name, or its spec isn't valid.
        ApiError: it can't be read.
    """
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
    for gate in _GATES:
        for other in gate.link.of(entry) if gate.link is not None else ():
            try:
                found = await client.get(BUNDLES, other.namespace, other.name)
            except errors.NotFound:
                continue
            except errors.ApiError as error:
                unread[gate.name] = f"Bundle {other.namespace}/{other.name}: {error.message}"
                continue
            cache.take(read_entry(found, defaults))
    places = dict.fromkeys((key.namespace, spec.project_namespace))
    frozen = await read_beside(client, installation, places)
    if frozen.unread:
        unread["freeze"] = gap(frozen.unread)
    now = datetime.now(UTC)
    seen = ALL_SEEN
    if spec.part(PromotionSpec):
        seen = await _seen_time(client, installation, unread)
    attesters = NO_ATTESTERS
    try:
        attesters = await attesters_of(client, spec)
    except (errors.ApiError, SpecError) as error:
        unread[PROMOTION_GATE] = f"its keys for attestations can't be used: {error}"
    return BundleGates(
        spec=spec,
        status=entry.status,
        now=now,
        findings=Findings(
            (
                FreezeFindings(tuple(freezes_in(frozen.values))),
                *(
                    one.find(cache, spec, lambda: seen.as_of(now))
                    for one in _GATES
                    if one.find and one.concerns(spec)
                ),
            )
        ),
        unread=tuple(unread.items()),
        attesters=attesters,
    )


async def attesters_of(client: KubeClient, spec: BundleSpec) -> Attesters:
    """The keys of its environments. A key that spec.verify trusts, too, is a fault of them.

    Raises:
        ApiError: keys can't be read.
        SpecError: two environments have the same key.
    """
    from copyrator.bundles.features.signatures import policy as trust  # noqa: PLC0415 - not for --help

    part = spec.part(PromotionSpec)
    named = part.attestations
    if not named:
        return NO_ATTESTERS
    signatures = spec.find(SignaturesSpec)
    required = signatures.any_of if signatures is not None else ()
    refs = dict.fromkeys((*part.keys, *refs_of(required)))
    contents = {ref: await read_files(client, spec.namespace, ref) for ref in refs}
    found, _ = await asyncio.to_thread(
        trust.read_requirement, trust.SPEC, spec.namespace, required, contents
    )
    asked = trust.combine_requirements([found] if required else [])
    return await asyncio.to_thread(read_attesters, spec.namespace, named, contents, asked)


async def read_files(
    client: KubeClient, namespace: str, ref: LocalObjectRef
) -> Mapping[str, bytes] | None:
    """The content of an object that is named for its keys; None where it doesn't exist."""
    from copyrator.bundles.engine.references import local_ref  # noqa: PLC0415 - not for --help
    from copyrator.bundles.evidence.key_files import files_of  # noqa: PLC0415 - not for --help

    there = local_ref(namespace, ref)
    try:
        return files_of(ref, await client.get(there.resource, there.namespace, there.name))
    except errors.NotFound:
        return None


async def _seen_time(
    client: KubeClient, installation: Installation, unread: dict[str, str]
) -> SeenTime:
    """The time that the operator observed: without it no soak can be computed."""
    settings = installation.settings
    home = settings.lease_namespace or installation.namespace
    try:
        lease = await client.get(LEASES, home, settings.lease_name)
    except errors.ApiError as error:
        unread[PROMOTION_GATE] = f"the time that the operator saw isn't known: {error.message}"
        return ALL_SEEN
    found = parse_seen(
        (lease["metadata"].get("annotations") or {}).get(names.ANN_SEEN_TIME),
        parse_time((lease.get("spec") or {}).get("renewTime")),
    )
    if found is None:
        unread[PROMOTION_GATE] = f"the Lease {home}/{settings.lease_name} has no record of it"
    return found or ALL_SEEN


@dataclass(frozen=True, slots=True)
class ResolvedTag:
    """The result of the selection."""

    tag: str | None = None
    digest: str | None = None
    rejected: tuple[dict[str, str], ...] = ()
    """Each with tag and reason; those that gates skip, or that are no version, with a message."""
    why: str = ""
    """Why no tag was selected; unused where one was."""
    signer: str | None = None
    """The entry that accepts a signature; None where no signature is required."""
    gates: tuple[dict[str, Any], ...] = ()
    """Of the Bundle that is named."""
    identity: str = ""
    """Whose token a cloud's registry got; empty where none was asked for."""

    def document(self, *, signed: bool, gated: bool) -> dict[str, Any]:
        """As in -o json."""
        found = {"tag": self.tag, "digest": self.digest, "rejected": list(self.rejected)}
        found |= {"signedBy": self.signer} if signed else {}
        found |= {"gates": list(self.gates)} if gated else {}
        found |= {"identity": self.identity} if self.identity else {}
        found |= {"message": None if self.tag else self.why} if signed or gated else {}
        return found


@click.command()
@click.argument("repository", metavar="REGISTRY/REPO")
@click.argument("constraint")
@click.option(
    "--tag-filter", metavar="REGEX", help="Regular expression for tags, as spec.tagFilter."
)
@click.option("--prerelease", is_flag=True, help="Admit pre-releases, as spec.prerelease.")
@click.option("--deployed", metavar="TAG", help="The deployed version: no lower one is selected.")
@click.option(
    "--bundle",
    metavar="NAME",
    help="A Bundle in the cluster, or NAMESPACE/NAME, whose gates the versions have to pass.",
)
@trust_options
@registry_options
@cluster_options()
@output_option
def resolve(
    target: Target, repository: str, constraint: str, shape: Format, **options: Any
) -> None:
    """Show the tag that CONSTRAINT resolves to, its digest, and why others were rejected.

    CONSTRAINT is a tag, 1.2.*, or a range such as '>=1.2 <2'. It is resolved by the operator's own
    code, from this machine.

    - With --key or other options for signatures, as in `verify`, the highest tag that is signed is
    selected, of the 50 highest.

    - With --bundle so are skip-digests, age and promotion of this Bundle, with the attestations in
    the registry, and the present verdicts of its gates for the moment of a deploy are shown:
    dependsOn, freezes, windows. Its signatures are judged by those options only, and its approval
    isn't.

    -o json has tag, digest and rejected: [{tag, reason}], of a tag that isn't a version also
    message.

    - With options for signatures also signedBy, message, and a message for each tag that was
    skipped.

    - With --bundle also gates: [{name, state, reason, message, until}], where state is also
    NotJudged.

    - With --provider, or the spec.provider of --bundle, also identity: whose token the cloud's
    registry got. Of a Bundle it is that of its service account, for which you need the permission
    to create tokens of it.

    Exit code: 0 a tag was selected; 1 none, or an error.
    """
    asked = asked_by(options)
    try:
        answer = run(_resolve(target, repository, constraint, asked, options))
    except RegistryError as error:
        raise Fault(in_options(error.message)) from None
    gated = options["bundle"] is not None
    if shape in (Format.JSON, Format.YAML):
        document = answer.document(signed=bool(asked), gated=gated)
        dump(typed(Kind.RESOLUTION, document), shape)
    elif answer.tag is not None:
        click.echo(answer.tag if shape is Format.NAME else f"{answer.tag}  {answer.digest}")
    if shape in (Format.TABLE, Format.WIDE):
        _explain(answer)
    if answer.tag is None:
        if shape in (Format.JSON, Format.YAML):
            raise click.exceptions.Exit(1)
        raise Fault(answer.why)


_GATE_COLUMNS: Final = (
    Column("GATE", lambda row: row["name"]),
    Column("STATE", lambda row: row["state"]),
    Column("REASON", lambda row: row.get("reason", "")),
    Column("UNTIL", lambda row: row.get("until", "")),
    Column("MESSAGE", lambda row: printable(row.get("message", "")), below=True),
)


def _explain(answer: ResolvedTag) -> None:
    """By whom it is signed, and the tags that were rejected."""
    if answer.identity:
        prose([printable(f"Logged in as {answer.identity}.")])
    if answer.signer is not None:
        prose([f"Signed by {answer.signer}."])
    if answer.gates:
        Table(_GATE_COLUMNS).print(answer.gates)
    columns = [
        Column("REJECTED", lambda row: row["tag"]),
        Column("REASON", lambda row: row["reason"]),
    ]
    explained = {row["reason"] for row in answer.rejected if "message" in row}
    if answer.tag is None and explained <= {Rejection.NOT_A_VERSION}:
        return  # the error names them
    if explained:
        columns.append(Column("MESSAGE", lambda row: printable(row.get("message", "")), below=True))
    if answer.rejected:
        Table(columns).print(answer.rejected)


async def _resolve(
    target: Target, text: str, constraint: str, asked: Asked, options: dict[str, Any]
) -> ResolvedTag:
    repository = repository_of(text, options)
    credential = credential_of(repository, options)
    try:
        wanted = parse_version(constraint)
    except VersionError as error:
        raise Fault(in_options(str(error))) from None
    kube, bundle = None, None
    async with AsyncExitStack() as stack:
        if options["bundle"]:
            key = BundleKey(*target.locate(options["bundle"]))
            kube = await stack.enter_async_context(target.connect())
            installation = await find_installation(kube)
            bundle = await _read(kube, installation, key)
            if credential is None and bundle.spec.registry == repository.registry:
                credential = bundles_credential(bundle.spec, installation.settings, repository)
        reached = await stack.enter_async_context(registries(kube))
        judge = SignatureJudge(reached.client, repository, credential, asked)
        if isinstance(wanted, ExactTag):
            found = await _exact(judge, wanted.tag, bundle)
        else:
            found = await _range(judge, wanted, options, bundle)
    found = replace(found, identity="; ".join(reached.identities))
    if bundle is None:
        return found
    chosen = Candidate(found.tag, found.digest) if found.tag and found.digest else None
    return replace(found, gates=tuple(bundle.document(chosen, signed=bool(asked))))


async def _exact(judge: SignatureJudge, tag: str, bundle: BundleGates | None) -> ResolvedTag:
    try:
        digest = await judge.client.digest(judge.repository, tag, judge.credential)
    except TagNotFound as error:
        if error.reason == RepositoryNotFound.reason:
            raise
        return ResolvedTag(why=f"{error.message}; check the repository, and that it was pushed")
    found = await _judged(judge, tag, digest, bundle)
    why = f"{judge.repository}:{tag} has no trusted signature"
    if bundle is not None:
        why = f"{judge.repository}:{tag} doesn't pass the gates"
    return replace(found, why=why)


async def _range(
    judge: SignatureJudge, wanted: VersionRange, options: dict[str, Any], bundle: BundleGates | None
) -> ResolvedTag:
    deployed = options["deployed"]
    if not deployed and bundle is not None:
        deployed = deployed_tag(bundle.status, bundle.spec.reference)
    gated = bool(judge.asked) or bundle is not None
    criteria = Criteria(
        range=wanted,
        tag_filter=options["tag_filter"],
        prerelease=options["prerelease"],
        deployed=deployed,
        depth=MAX_CANDIDATES + 1 if gated else 0,
    )
    try:
        selection = criteria.selection()
    except FilterError as error:
        raise Fault(f"--tag-filter isn't a valid regular expression for tags: {error}") from None

    async def add(tags: list[str]) -> None:
        for tag in tags:
            selection.add(tag)

    client, repository = judge.client, judge.repository
    await client.tags(repository, judge.credential, add)
    choice: Choice = selection.result()
    rejected = tuple(
        {"tag": str(one.version), "reason": str(one.reason)}
        | ({"message": in_options(one.message)} if one.message else {})
        for one in choice.rejected
    )
    if choice.tag is None:
        why = explain(choice, wanted.text, deployed)
        return ResolvedTag(rejected=rejected, why=in_options(f"{repository}: {why}"))
    if gated:
        found = await _first_passing(judge, choice.fitting, wanted.text, bundle)
        return replace(found, rejected=found.rejected + rejected)
    digest = await client.digest(repository, choice.tag, judge.credential)
    return ResolvedTag(choice.tag, digest, rejected)


async def _first_passing(
    judge: SignatureJudge, tags: Sequence[str], wanted: str, bundle: BundleGates | None
) -> ResolvedTag:
    """The first of these tags, the highest first, that passes, as for the operator."""
    passed_over: tuple[dict[str, str], ...] = ()
    for tag in tags[:MAX_CANDIDATES]:
        try:
            digest = await judge.client.digest(judge.repository, tag, judge.credential)
        except TagNotFound:  # deleted since the list was read
            continue
        found = await _judged(judge, tag, digest, bundle)
        if found.tag is not None:
            return replace(found, rejected=passed_over)
        passed_over += found.rejected
    why = f"{judge.repository}: no tag that matches {wanted} has a trusted signature"
    if bundle is not None:
        why = f"{judge.repository}: no tag that matches {wanted} passes the gates"
    if len(tags) > MAX_CANDIDATES:
        why += (
            f"; only the {MAX_CANDIDATES} highest were judged, as the operator does: narrow the "
            "range to judge lower ones"
        )
    return ResolvedTag(rejected=passed_over, why=why)


async def _judged(
    judge: SignatureJudge, tag: str, digest: str, bundle: BundleGates | None
) -> ResolvedTag:
    """The tag if all gates pass; else its rejection, by the first gate that doesn't."""
    candidate = Candidate(tag, digest)
    if bundle is not None:
        await bundle.read_evidence(judge, digest)
    if bundle is not None and (objecting := hold_back(candidate, bundle.versions(candidate))):
        objection = objecting.objection
        message = objection.message
        if isinstance(objection, Waiting) and objection.until is not None:
            message += f"; it passes at {format_time(objection.until)}"
        return ResolvedTag(rejected=({"tag": tag, "reason": objection.reason, "message": message},))
    if not judge.asked:
        return ResolvedTag(tag, digest)
    try:
        judged = await judge.judgement(digest)
    except RegistryError as error:
        reason, message = BundleReason.VERIFICATION_UNAVAILABLE, in_options(error.message)
    else:
        found = verdict(judge.asked, digest, judged)
        if isinstance(found, Passed):
            return ResolvedTag(tag, digest, signer=judged.holds[0].entry)
        reason, message = BundleReason(found.reason), found.message
    return ResolvedTag(rejected=({"tag": tag, "reason": str(reason), "message": message},))
