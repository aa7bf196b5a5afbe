"""`copyrator remote check`, and what doctor checks of other clusters: kubeconfigs and keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import NO_CONDITION, ConditionType, read_conditions
from copyrator.api.kubeconfig import (
    DEFAULT_KEY,
    InvalidKubeconfigError,
    Kubeconfig,
    KubeconfigRef,
    is_home,
    kubeconfig_in,
    read_kubeconfig_ref,
)
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import SpecError, map_in
from copyrator.api.text import count, first_of, format_time, said, time_since
from copyrator.bundles.features.attest.fields import OPERATORS_KEY, AttestSpec
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.features.promotion.fields import PromotionSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.cli.core.cluster import Target, all_of, cluster_options, run
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import Installation, allowed, username
from copyrator.cli.core.objects import Body, listed
from copyrator.cli.core.output import Format, answer_option
from copyrator.cli.doctor.check import Check, print_checks
from copyrator.kube import errors
from copyrator.kube.resources import (
    BUNDLES,
    NAMESPACES,
    RULES,
    SECRETS,
    UID_NAMESPACE,
    Discovery,
)
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

WARNING: Final = timedelta(days=14)
"""Before the end of a credential."""
PATIENCE: Final = 30.0
"""Seconds for all that the other cluster is asked for."""

_VERBS: Final = ("get", "list", "watch")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """What a rule reads in the other cluster."""

    kind: str
    api_version: str | None
    namespace: str
    name: str
    """Empty: by a selector."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name or '*'}"


@click.command("check")
@click.argument("secret", metavar="[NAMESPACE/]SECRET")
@cluster_options()
@click.option("--key", default=DEFAULT_KEY, show_default=True, help="Key of the Secret.")
@answer_option
def check(*, target: Target, secret: str, key: str, shape: Format | None) -> None:
    """Check the kubeconfig in a Secret: its form, its end, the server, and what it may read.

    Read is what the rules in the Secret's namespace name with it. The server is asked from this
    machine. Exit code: 0 no check failed; 1 at least one did.
    """
    checks = run(_checks(target, secret, key))
    print_checks(checks, shape)


async def _checks(target: Target, secret: str, key: str) -> list[Check]:
    namespace, name = target.locate(secret)
    async with target.connect() as client:
        try:
            body = await client.get(SECRETS, namespace, name)
        except errors.NotFound:
            raise Fault(
                f"there is no Secret {name} in the namespace {namespace}; `remote grant`, run "
                "against the other cluster, prints one"
            ) from None
        try:
            found = kubeconfig_in(body, key)
        except InvalidKubeconfigError as error:
            return [Check("Kubeconfig", False, str(error))]
        checks = [Check("Kubeconfig", True, found.server), credential(found, datetime.now(UTC))]
        if is_home(found.server, [client.connection.host]):
            return [*checks, Check("Cluster", False, _HOME)]
        ref = KubeconfigRef(name, key)
        asked = await _asked(client, namespace, ref)
        bundles = await _deployed_by(client, namespace, ref)
        home = await _uid(client)
    checks += await _there(found, home, asked, is_for_bundles=bool(bundles))
    if bundles:
        text = first_of(bundles, _NAMED)
        text = f"{text}; what a deploy needs isn't reviewed: its Job's log names it"
        checks.append(Check("Bundles", None, text))
    return checks


_HOME: Final = (
    "that is this cluster itself; leave out kubeConfig to copy from here, or deploy to here"
)


def credential(found: Kubeconfig, now: datetime) -> Check:
    """When it ends."""
    what = "token" if found.token is not None else "certificate"
    if found.ends is None:
        return Check("Credential", True, f"a {what} without a known end")
    ends = f"the {what} {'ended' if found.ends <= now else 'ends'} at {format_time(found.ends)}"
    if found.ends <= now:
        return Check("Credential", False, f"{ends}; write a new one into the Secret")
    if found.ends - now < WARNING:
        left = time_since(format_time(now), found.ends)
        return Check("Credential", None, f"{ends}, in {left}; write a new one into the Secret")
    return Check("Credential", True, ends)


async def _uid(client: KubeClient) -> str:
    """Which cluster it is; empty where that may not be read."""
    with suppress(errors.ApiError):
        body = await client.get(NAMESPACES, None, UID_NAMESPACE)
        return str(body["metadata"].get("uid") or "")
    return ""


async def _asked(client: KubeClient, namespace: str, ref: KubeconfigRef) -> list[RemoteSource]:
    """What the rules in a namespace read by this kubeconfig, as far as they can be listed."""
    found: dict[RemoteSource, None] = {}
    with suppress(errors.ApiError):
        for body in await listed(client, RULES, namespace):
            for source, at in _sources_of(body):
                if at == ref:
                    found |= dict.fromkeys(_read_by(source, namespace))
    return list(found)


async def _deployed_by(client: KubeClient, namespace: str, ref: KubeconfigRef) -> list[str]:
    """The Bundles in a namespace that are deployed by this kubeconfig, as far as listed."""
    found: list[str] = []
    with suppress(errors.ApiError):
        for body in await listed(client, BUNDLES, namespace):
            if _of_bundle(body) == ref:
                found.append(f"Bundle {name_of(body)}")  # noqa: PERF401 - listed may raise
    return found


def _of_bundle(bundle: Body) -> KubeconfigRef | None:
    """The kubeconfig of a Bundle; None where it has none, or not a valid one."""
    with suppress(SpecError):
        return read_kubeconfig_ref(map_in(bundle, "spec"), "spec")
    return None


def _sources_of(rule: Body) -> Iterator[tuple[Body, KubeconfigRef | None]]:
    """The sources of a rule, each with its kubeconfig; those of an invalid rule may be missing."""
    spec = rule.get("spec")
    if not isinstance(spec, Mapping):
        return
    several = spec.get("sources")
    for source in (spec.get("source"), *(several if isinstance(several, list) else ())):
        with suppress(SpecError):
            if isinstance(source, Mapping):
                yield source, read_kubeconfig_ref(source, "source")


def _read_by(source: Body, home: str) -> Iterator[RemoteSource]:
    namespaces = source.get("namespaces") or [source.get("namespace") or home]
    version = source.get("apiVersion")
    for namespace in namespaces if isinstance(namespaces, list) else ():
        yield RemoteSource(
            str(source.get("kind") or "Secret"),
            str(version) if version else None,
            str(namespace),
            str(source.get("name") or ""),
        )


async def _there(
    found: Kubeconfig, home: str, asked: Sequence[RemoteSource], *, is_for_bundles: bool
) -> list[Check]:
    """What the other cluster answers, up to the first request that fails."""
    from copyrator.kube.auth import remote_endpoint  # noqa: PLC0415 - not for --help
    from copyrator.kube.client.remote import RemoteClient  # noqa: PLC0415
    from copyrator.kube.client.transport import KubeconfigError  # noqa: PLC0415

    try:
        endpoint = remote_endpoint(found)
    except KubeconfigError as error:
        return [Check("Kubeconfig", False, str(error))]
    checks: list[Check] = []
    async with RemoteClient(endpoint, " in the other cluster") as client:
        try:
            async with asyncio.timeout(PATIENCE):
                version = await client.request("GET", "/version")
                checks.append(Check("Server", True, f"Kubernetes {said(version['gitVersion'])}"))
                await client.identify()
                checks.append(_cluster(client.uid, home))
                checks.append(Check("Account", True, said(await username(client))))
                if asked or not is_for_bundles:
                    checks += await _rights(client, asked)
        except TimeoutError:
            checks.append(Check("Server", False, f"didn't answer all within {PATIENCE:g} s"))
        except errors.ApiError as error:
            checks.append(Check("Server", False, error.message))
        except (AttributeError, KeyError, TypeError, ValueError):
            checks.append(Check("Server", False, "its answers aren't those of an API server"))
    return checks


def _cluster(uid: str | None, home: str) -> Check:
    if uid is None:
        return Check(
            "Cluster",
            None,
            "the account may not get the Namespace kube-system, whose uid tells clusters apart; "
            "the server's CA takes its place",
        )
    return Check("Cluster", uid != home, _HOME if uid == home else f"uid {uid}")


async def _rights(client: KubeClient, asked: Sequence[RemoteSource]) -> list[Check]:
    if asked:
        discovery = Discovery(client)
        return await all_of(_right(client, discovery, one) for one in asked)
    user = (await username(client)).split(":")
    if user[:2] != ["system", "serviceaccount"] or len(user) != 4:
        return [Check("Permissions", None, f"{_NO_RULE}, so they weren't reviewed")]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": user[2]},
    }
    answer = await client.request("POST", _REVIEWS, body=body)
    readable = list(_readable(answer["status"]["resourceRules"]))
    shown = first_of(readable, _NAMED, ", ") or "nothing"
    return [Check("Permissions", None, f"{_NO_RULE}; in {said(user[2])} it may read {shown}")]


_NO_RULE: Final = "no rule in the Secret's namespace names it yet"


def _readable(found: Iterable[Body]) -> Iterator[str]:
    """``secrets registry-creds``, of the rights of a review."""
    for rule in found:
        verbs, resources = rule.get("verbs") or (), rule.get("resources") or ()
        if {"get", "*"}.isdisjoint(verbs) or not resources or resources == ["namespaces"]:
            continue
        named = rule.get("resourceNames") or ()
        yield said(" ".join(("/".join(map(str, resources)), *map(str, named))))


async def _right(client: KubeClient, discovery: Discovery, asked: RemoteSource) -> Check:
    what = f"Source {asked}"
    try:
        resource = await discovery.resolve(asked.kind, asked.api_version)
    except (errors.KindUnavailable, errors.AmbiguousKind) as error:
        return Check(what, False, error.message)
    needs = {verb: (resource, "", verb, asked.namespace) for verb in _VERBS}
    denied = [
        verb for verb, need in needs.items() if not await allowed(client, need, None, asked.name)
    ]
    if not denied:
        return Check(what, True, f"the account may {', '.join(_VERBS)} it")
    source = f"{asked.kind}/{asked.namespace}{asked.name and f'/{asked.name}'}"
    return Check(
        what,
        False,
        f"the account may not {', '.join(denied)} it; to grant it run in that cluster: remote "
        f"grant NAME --source {source} --server URL",
    )


WHAT: Final = "Other clusters"


async def kubeconfigs(
    client: KubeClient, rules: Iterable[Body], bundles: Iterable[Body], now: datetime
) -> Check:
    """Doctor's check: the kubeconfigs that are named can be used, and don't end soon."""
    faults: list[str] = []
    warnings: list[str] = []
    refs = [(body, ref) for body in rules for _, ref in _sources_of(body)]
    refs += [(body, _of_bundle(body)) for body in bundles]
    named = dict.fromkeys((name_of(body).namespace, ref) for body, ref in refs if ref is not None)
    try:
        for namespace, ref in named:
            where = f"Secret {namespace}/{ref.secret}, key {ref.key}"
            try:
                found = kubeconfig_in(await client.get(SECRETS, namespace, ref.secret), ref.key)
            except errors.NotFound:
                faults.append(f"{where}: there is no such Secret")
                continue
            except InvalidKubeconfigError as error:
                faults.append(f"{where}: {error}")
                continue
            ends = credential(found, now)
            if not ends.good:
                (faults if ends.good is False else warnings).append(f"{where}: {ends.said}")
    except errors.ApiError as error:
        return Check(WHAT, None, f"their kubeconfigs can't be read: {error.message}")
    if faults or warnings:
        text = first_of([*faults, *warnings], _NAMED)
        text = f"{text}; see: {hint('remote', 'check', 'SECRET')}"
        return Check(WHAT, False if faults else None, text)
    text = f"{count(len(named), 'kubeconfig')} named, none at fault"
    return Check(WHAT, True, text if named else "no rule or Bundle names another cluster")


ATTESTATIONS: Final = "Attestations"


async def attestations(
    client: KubeClient, installation: Installation, bundles: Iterable[Body]
) -> Check:
    """Doctor's check: what Bundles attest is pushed, their keys and environments' can be used."""
    from copyrator.cli.bundles.resolve import attesters_of  # noqa: PLC0415 - not for --help

    faults: list[str] = []
    attesting = promoted = 0
    try:
        for body in bundles:
            spec = parse_bundle(body, BundleDefaults())
            if not isinstance(spec, BundleSpec):
                continue
            attesting += spec.uses(AttestSpec)
            promoted += bool(spec.part(PromotionSpec).attestations)
            fault = _push_fault(body) if spec.uses(AttestSpec) else ""
            fault = fault or await _key_fault(client, installation, spec)
            try:
                fault = fault or (await attesters_of(client, spec)).fault
            except SpecError as error:
                fault = str(error)
            if fault:
                faults.append(f"Bundle {name_of(body)}: {fault}")
    except errors.ApiError as error:
        return Check(ATTESTATIONS, None, f"keys can't be read: {error.message}")
    if faults:
        return Check(ATTESTATIONS, False, first_of(faults, _NAMED))
    attest = count(attesting, "Bundle attests", "Bundles attest")
    follow = count(promoted, "is", "are")
    return Check(ATTESTATIONS, True, f"{attest}, and {follow} promoted by attestations")


async def _key_fault(client: KubeClient, installation: Installation, spec: BundleSpec) -> str:
    """Why the key that attests can't be used; empty where it can, or none is needed.

    An encrypted one isn't decrypted: that may take as long as its file says.
    """
    from copyrator.bundles.engine.key_files import files_of  # noqa: PLC0415
    from copyrator.signatures.attestation import is_encrypted, read_private_key  # noqa: PLC0415
    from copyrator.signatures.model import TrustError  # noqa: PLC0415 - not for --help

    if (attest := spec.find(AttestSpec)) is None:
        return ""
    key = attest.own_key or OPERATORS_KEY
    namespace = spec.namespace if attest.own_key else installation.namespace
    ref = LocalObjectRef(key.secret, ValuesKind.SECRET)
    where = f"Secret {namespace}/{key.secret} of spec.attest"
    try:
        files = files_of(ref, await client.get(SECRETS, namespace, key.secret))
    except errors.NotFound:
        return f"{where} doesn't exist; create it"
    password = files.get(key.password_key or "")
    is_required = attest.own_key is not None and key.password_key is not None
    missing = [key.key] if key.key not in files else []
    missing += [str(key.password_key)] if is_required and password is None else []
    if missing:
        return f"{where} has no key {missing[0]}; add it"
    content = files[key.key]
    if is_encrypted(content) and password:
        return ""
    try:
        read_private_key(f"the key {key.key} of {where}", content, password)
    except TrustError as error:
        return str(error)
    return ""


def _push_fault(body: Body) -> str:
    """Why a Bundle's statement isn't in the registry; empty where it is, or was withdrawn."""
    found = read_conditions(body).get(ConditionType.ATTESTED, NO_CONDITION)
    if not found.is_false or found.reason == AttestReason.ATTESTATION_WITHDRAWN:
        return ""
    return f"{said(found.reason)}: {said(found.message, 512)}"
