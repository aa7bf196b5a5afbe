"""`copyrator remote`: what another cluster may read of this one, and whether it can.

`grant` is run against the cluster that has the objects, `check` against the one that copies them.
What doctor checks of other clusters is here, too.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import click
import yaml

from copyrator.api.kubeconfig import (
    DEFAULT_KEY,
    InvalidKubeconfigError,
    Kubeconfig,
    KubeconfigRef,
    is_home,
    kubeconfig_in,
    normalize_server,
    parse_kubeconfig,
    read_kubeconfig_ref,
)
from copyrator.api.names import LABEL_REMOTE
from copyrator.api.schema import SpecError, map_in
from copyrator.api.text import (
    check_namespace,
    check_object_name,
    count,
    first_of,
    format_time,
    parse_time,
    quoted,
    said,
    time_since,
)
from copyrator.cli.core.cluster import Target, all_of, cluster_options
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import allowed, username
from copyrator.cli.core.objects import Body, listed
from copyrator.cli.core.output import Format, answer_option, dump, items, prose
from copyrator.cli.core.waiting import Duration
from copyrator.cli.doctor.check import Check, print_checks, tried
from copyrator.kube import errors
from copyrator.kube.resources import (
    BUNDLES,
    CLUSTERROLES,
    CONFIGMAPS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    RULES,
    SECRETS,
    SERVICEACCOUNTS,
    UID_NAMESPACE,
    Discovery,
    Resource,
)
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


FIELD_MANAGER: Final = "copyrator-remote"
LEAST_TTL: Final = 600.0
"""Seconds; the API server refuses shorter ones."""
TOKEN_PATIENCE: Final = 30.0
"""Seconds in which the cluster's controller has to write the token."""

_CLUSTERROLEBINDINGS: Final = Resource(
    CLUSTERROLES.group, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
_KINDS: Final = {
    one.kind: one
    for one in (
        SERVICEACCOUNTS,
        SECRETS,
        ROLES,
        ROLEBINDINGS,
        CLUSTERROLES,
        _CLUSTERROLEBINDINGS,
    )
}
_VERBS: Final = ["get", "list", "watch"]
_ROOT_CA: Final = "kube-root-ca.crt"
"""The ConfigMap that each namespace has, key ``ca.crt``."""
_TOKEN_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
_ACCOUNT_OF_TOKEN: Final = "kubernetes.io/service-account.name"  # noqa: S105 - an annotation

Manifest = dict[str, Any]


class Granted(NamedTuple):
    """One object, or with an empty name all of a kind in a namespace."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        if self.name:
            return f"{self.resource.kind} {self.namespace}/{self.name}"
        return f"all {self.resource.plural} of the namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class Grant:
    """What is made in the cluster that has the objects."""

    name: str
    namespace: str
    """Of the service account."""
    sources: tuple[Granted, ...]
    lasting: bool
    """Whether its token is one in a Secret, which has no end."""

    @property
    def label(self) -> str:
        """The value of LABEL_REMOTE; no namespace has a dot, so that it is this grant's only."""
        return f"{self.namespace}.{self.name}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those of the sources."""
        return tuple(sorted({source.namespace for source in self.sources}))

    @property
    def role_name(self) -> str:
        """Of the roles and bindings, in each namespace and in none."""
        return f"copyrator-remote:{self.namespace}:{self.name}"

    @property
    def of_cluster(self) -> list[Manifest]:
        """What lets it know this cluster again; without it, it is known by its CA."""
        rule = {
            "apiGroups": [""],
            "resources": ["namespaces"],
            "resourceNames": [UID_NAMESPACE],
            "verbs": ["get"],
        }
        role = self._object(CLUSTERROLES, None, self.role_name)
        binding = self._object(_CLUSTERROLEBINDINGS, None, self.role_name)
        return [{**role, "rules": [rule]}, {**binding, **self._bound(CLUSTERROLES)}]

    @property
    def of_namespaces(self) -> list[Manifest]:
        """The service account, and its rights."""
        account = self._object(SERVICEACCOUNTS, self.namespace, self.name)
        found = [{**account, "automountServiceAccountToken": False}]
        for namespace in self.namespaces:
            role = self._object(ROLES, namespace, self.role_name)
            binding = self._object(ROLEBINDINGS, namespace, self.role_name)
            found.append({**role, "rules": list(self._rules(namespace))})
            found.append({**binding, **self._bound(ROLES)})
        return found

    @property
    def token(self) -> Manifest:
        """The Secret whose token the cluster writes."""
        body = self._object(SECRETS, self.namespace, f"{self.name}-token")
        body["metadata"]["annotations"] = {_ACCOUNT_OF_TOKEN: self.name}
        return {**body, "type": _TOKEN_TYPE}

    @property
    def all(self) -> list[Manifest]:
        """All objects in the order in which they are made."""
        return [*self.of_namespaces, *self.of_cluster, *([self.token] if self.lasting else [])]

    def _rules(self, namespace: str) -> Iterator[Manifest]:
        """One for each kind, so that the same grant is the same Role."""
        names: dict[Resource, set[str]] = {}
        for source in self.sources:
            if source.namespace == namespace:
                names.setdefault(source.resource, set()).add(source.name)
        for resource in sorted(names, key=lambda one: one.key):
            rule = {"apiGroups": [resource.group], "resources": [resource.plural]}
            if "" not in names[resource]:
                rule["resourceNames"] = sorted(names[resource])
            yield {**rule, "verbs": _VERBS}

    def _bound(self, role: Resource) -> Manifest:
        ref = {"apiGroup": role.group, "kind": role.kind, "name": self.role_name}
        account = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {"roleRef": ref, "subjects": [account]}

    def _object(self, resource: Resource, namespace: str | None, name: str) -> Manifest:
        metadata: Manifest = {"name": name, "labels": {LABEL_REMOTE: self.label}}
        if namespace is not None:
            metadata["namespace"] = namespace
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


@click.group()
def remote() -> None:
    """Let another cluster read objects of this one, and check that it can."""


@remote.command("grant")
@click.argument("name")
@cluster_options()
@click.option(
    "--source",
    "sources",
    metavar="KIND/NAMESPACE[/NAME]",
    multiple=True,
    required=True,
    help="What may be read; several times. Without a name: all of the kind in the namespace.",
)
@click.option(
    "--server",
    metavar="URL",
    required=True,
    help="This cluster's API server, as the other cluster reaches it.",
)
@click.option(
    "--certificate-authority",
    "ca_file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="CA of the certificate at URL; default: this cluster's own.",
)
@click.option("--tls-server-name", metavar="NAME", help="Name in that certificate, if not URL's.")
@click.option(
    "--ttl",
    metavar="DURATION",
    type=Duration(LEAST_TTL),
    help="End of the token; default: it has none.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be made; nothing is.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@answer_option
async def grant(
    *,
    target: Target,
    name: str,
    sources: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    shape: Format | None,
    **address: Any,
) -> None:
    """Make a service account that may read these objects, and print a Secret with its credential.

    The Secret is for the other cluster: a rule there names it in spec.source.kubeConfig. Run it
    again to change what may be read, or for a new token. The account is in the namespace of -n;
    default: the first source's.

    copyrator remote grant hub --source Secret/infra/registry-creds --server
    https://hub.example.com:6443 | kubectl --context edge -n copyrator apply --server-side -f -
    """
    wanted = [_source(text) for text in sources]
    kubeconfig = _address(address)
    if check_namespace(name):
        raise click.UsageError(
            f"NAME: {quoted(name)} isn't a valid name; use at most 63 lower-case letters, "
            "digits and '-'"
        )
    namespace = target.namespace_option or wanted[0][1]
    if problem := check_namespace(namespace):
        raise click.UsageError(problem)
    if len(f"{namespace}.{name}") > _LABEL_LENGTH:
        raise click.UsageError(
            f"the namespace and NAME together have over {_LABEL_LENGTH - 1} characters; choose "
            "a shorter NAME"
        )
    ttl = address["ttl"]
    found = await _resolve(target, Grant(name, namespace, (), lasting=ttl is None), wanted)
    if dry_run:
        if shape is None:
            click.echo(yaml.safe_dump_all(found.all, sort_keys=False).rstrip())
        else:
            dump(items(found.all), shape)
        return
    _confirm([source for source in found.sources if not source.name], yes=yes)
    secret, lines = await _grant(target, found, kubeconfig, ttl)
    prose(lines, err=True)
    dump(secret, shape or Format.YAML)


_LABEL_LENGTH: Final = 63


def _source(text: str) -> tuple[str, str, str]:
    """Kind, namespace and name; an empty name for all."""
    kind, *rest = text.split("/")
    known = {"secret": "Secret", "secrets": "Secret"}
    known |= dict.fromkeys(("configmap", "configmaps", "cm"), "ConfigMap")
    problem = None
    if not 1 <= len(rest) <= 2:
        problem = f"{text!r} isn't KIND/NAMESPACE/NAME, such as Secret/infra/registry-creds"
    else:
        problem = check_namespace(rest[0]) or (check_object_name(rest[1]) if rest[1:] else None)
    if problem:
        raise click.UsageError(f"--source: {problem}")
    return known.get(kind.lower(), kind), rest[0], "".join(rest[1:])


def _address(options: Mapping[str, Any]) -> Kubeconfig:
    """The server, still without its CA and a credential."""
    try:
        server = normalize_server(options["server"])
    except ValueError as error:
        raise click.UsageError(f"--server {error}") from None
    file = options["ca_file"]
    ca = file.read_bytes() if file is not None else b""
    return Kubeconfig(server=server, ca=ca, tls_server_name=options["tls_server_name"])


async def _resolve(target: Target, found: Grant, wanted: Sequence[tuple[str, str, str]]) -> Grant:
    """The grant with the kinds as this cluster serves them.

    Raises:
        Fault: a kind isn't served, or isn't namespaced.
    """
    async with target.connect() as client:
        discovery = Discovery(client)
        sources = []
        for text, namespace, name in wanted:
            kind, _, group = text.partition(".")
            if group:
                resource = await discovery.in_group(kind, group)
            else:
                resource = await discovery.resolve(kind)
            if resource is None:
                raise Fault(f"--source: the cluster serves no kind {kind} in the API group {group}")
            if not resource.namespaced:
                raise Fault(f"--source: objects of the kind {kind} are in no namespace")
            sources.append(Granted(resource, namespace, name))
    return replace(found, sources=tuple(dict.fromkeys(sources)))


def _confirm(whole: Sequence[Granted], *, yes: bool) -> None:
    """RBAC knows names and no labels: what a selector selects can't be granted alone."""
    if not whole:
        return
    said = f"The other cluster may read {', '.join(map(str, whole))}, whatever their labels are."
    prose([said], err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("without a terminal nobody can be asked for confirmation: add --yes")
    if not click.confirm("Grant that?", err=True):
        raise Fault("nothing was granted")


async def _grant(
    target: Target, found: Grant, address: Kubeconfig, ttl: timedelta | None
) -> tuple[Manifest, list[str]]:
    """Make it; return the Secret for the other cluster, and what to say."""
    async with target.connect() as client:
        lines = [await _apply(client, body, found.label) for body in found.of_namespaces]
        lines += await _remove_others(client, found)
        try:
            lines += [await _apply(client, body, found.label) for body in found.of_cluster]
        except errors.Forbidden as error:
            lines.append(
                f"The account may not read the uid of this cluster ({error.message}); the other "
                "side knows this cluster by its CA instead."
            )
        ca = address.ca or await _root_ca(client, found.namespace)
        if ttl is None:
            lines.append(await _apply(client, found.token, found.label))
            token = await _written_token(client, found)
        else:
            token, until = await _requested_token(client, found, ttl)
            lines.append(f"The token ends at {until}: run this command again before, and apply.")
    try:
        whole = parse_kubeconfig(replace(address, ca=ca, token=token).encode())
    except InvalidKubeconfigError as error:
        raise Fault(f"no kubeconfig can be made: {error}") from None
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": found.name},
        "type": "Opaque",
        "stringData": {DEFAULT_KEY: whole.encode().decode()},
    }
    return secret, [*filter(None, lines), *_next(found, whole)]


def _next(found: Grant, whole: Kubeconfig) -> Iterator[str]:
    if _is_loopback(urlsplit(whole.server).hostname or ""):
        yield f"{whole.server} is this machine: other clusters' pods can't reach it by that URL."
    yield (
        "The printed Secret is a credential. Apply it in the other cluster, in the namespace of "
        "the rule: kubectl -n NAMESPACE apply --server-side -f -"
    )
    plurals = ",".join(one.plural for one in _KINDS.values())
    yield f"To take it back: kubectl delete {plurals} -A -l {LABEL_REMOTE}={found.label}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _apply(client: KubeClient, body: Manifest, label: str) -> str:
    """Apply an object; return what has changed, empty where nothing has.

    Raises:
        Fault: there is one that isn't this grant's.
    """
    resource, (namespace, name) = _KINDS[body["kind"]], name_of(body)
    from copyrator.kube.client.client import PatchType  # noqa: PLC0415 - not for --help

    before: Manifest | None = None
    try:
        before = await client.get(resource, namespace, name)
    except errors.NotFound as error:
        if error.kind_missing:
            raise
    shown = f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"
    if before is not None:
        labels = before["metadata"].get("labels") or {}
        if labels.get(LABEL_REMOTE) != label:
            raise Fault(
                f"the {shown} exists and wasn't made by this command; choose another NAME, or "
                "another namespace with -n"
            )
    after = await client.patch(
        resource,
        namespace or None,
        name,
        body,
        kind=PatchType.APPLY,
        field_manager=FIELD_MANAGER,
        force=True,
    )
    if before is None:
        return f"Created: {shown}."
    versions = (one["metadata"]["resourceVersion"] for one in (before, after))
    return f"Changed: {shown}." if len(set(versions)) > 1 else ""


async def _remove_others(client: KubeClient, found: Grant) -> list[str]:
    """Take back the rights in namespaces that have no source any more."""
    lines: list[str] = []
    for resource in (ROLEBINDINGS, ROLES):
        try:
            bodies = await listed(client, resource, None, selector=f"{LABEL_REMOTE}={found.label}")
        except errors.Forbidden:
            return [*lines, "Whether it has rights in further namespaces can't be listed."]
        for body in bodies:
            namespace, name = name_of(body)
            if namespace not in found.namespaces:
                uid = body["metadata"]["uid"]
                await client.delete(resource, namespace, name, uid=uid)
                lines.append(f"Removed: {resource.kind} {namespace}/{name}, no --source is there.")
    return lines


async def _root_ca(client: KubeClient, namespace: str) -> bytes:
    try:
        body = await client.get(CONFIGMAPS, namespace, _ROOT_CA)
    except errors.NotFound:
        raise Fault(
            f"the namespace {namespace} has no ConfigMap {_ROOT_CA}; name the file of the CA with "
            "--certificate-authority"
        ) from None
    return str((body.get("data") or {}).get("ca.crt") or "").encode()


async def _written_token(client: KubeClient, found: Grant) -> str:
    """The token in the Secret, which a controller of the cluster writes."""
    namespace, name = name_of(found.token)
    deadline = asyncio.get_running_loop().time() + TOKEN_PATIENCE
    while True:
        body = await client.get(SECRETS, namespace, name)
        if token := (body.get("data") or {}).get("token"):
            return base64.b64decode(token).decode()
        if asyncio.get_running_loop().time() > deadline:
            raise Fault(
                f"the cluster hasn't written a token into the Secret {namespace}/{name} in "
                f"{TOKEN_PATIENCE:g} s; try again, or ask for a token with --ttl"
            )
        await asyncio.sleep(0.25)


async def _requested_token(client: KubeClient, found: Grant, ttl: timedelta) -> tuple[str, str]:
    """A token with an end, and that end, which may be earlier than asked for."""
    path = SERVICEACCOUNTS.path(found.namespace, found.name, "token")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(ttl.total_seconds())},
    }
    answer = await client.request("POST", path, body=body)
    status = answer["status"]
    until = parse_time(status.get("expirationTimestamp"))
    return str(status["token"]), format_time(until) if until else "an unknown time"


WARNING: Final = timedelta(days=14)
"""Before the end of a credential."""
PATIENCE: Final = 30.0
"""Seconds for all that the other cluster is asked for."""

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


@remote.command("check")
@click.argument("secret", metavar="[NAMESPACE/]SECRET")
@cluster_options()
@click.option("--key", default=DEFAULT_KEY, show_default=True, help="Key of the Secret.")
@answer_option
async def check(*, target: Target, secret: str, key: str, shape: Format | None) -> None:
    """Check the kubeconfig in a Secret: its form, its end, the server, and what it may read.

    Read is what the rules in the Secret's namespace name with it. The server is asked from this
    machine. Exit code: 0 no check failed; 1 at least one did.
    """
    print_checks(await _checks(target, secret, key), shape)


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


@tried(WHAT, "their kubeconfigs can't be read")
async def kubeconfigs(
    client: KubeClient, rules: Iterable[Body], bundles: Iterable[Body], now: datetime
) -> Check:
    """Doctor's check: the kubeconfigs that are named can be used, and don't end soon."""
    faults: list[str] = []
    warnings: list[str] = []
    refs = [(body, ref) for body in rules for _, ref in _sources_of(body)]
    refs += [(body, _of_bundle(body)) for body in bundles]
    named = dict.fromkeys((name_of(body).namespace, ref) for body, ref in refs if ref is not None)
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
    if faults or warnings:
        text = first_of([*faults, *warnings], _NAMED)
        text = f"{text}; see: {hint('remote', 'check', 'SECRET')}"
        return Check(WHAT, False if faults else None, text)
    text = f"{count(len(named), 'kubeconfig')} named, none at fault"
    return Check(WHAT, True, text if named else "no rule or Bundle names another cluster")
