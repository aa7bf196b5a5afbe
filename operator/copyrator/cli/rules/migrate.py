"""`copyrator migrate`: rules that replace other copying tools' annotations and objects.

What these mean was read in each tool's own source, at the versions that docs/adoption.md names. A
rule has one list of globs and one selector, which both must match. So the requests of several
annotations on one source become one rule where possible, and else rules that exclude each other's
namespaces: no two have one name or target.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.api.selectors import ANY_LABELS, LabelSelector, Operator, Requirement
from copyrator.api.text import count
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.installation import find_installation, own_namespace_option
from copyrator.cli.core.objects import Body, annotations_of, listed
from copyrator.cli.core.output import Format, object_option, reference, show_all
from copyrator.kube import errors
from copyrator.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


REPLICATOR: Final = "replicator.v1.mittwald.de/"
REFLECTOR: Final = "reflector.v1.k8s.emberstack.com/"
SYNCER: Final = "kubed.appscode.com/sync"

DATA_KINDS: Final = ("ConfigMap", "Secret")
"""What all tools copy; kubernetes-replicator also Roles, RoleBindings and ServiceAccounts."""
NOWHERE: Final = "no-namespace-matches"
"""As a glob: no namespace, because without a glob each one is a target."""

_PERMISSIONS: Final = {
    "Role": "the operator may only grant permissions that it has",
    "RoleBinding": "the operator needs permission to bind the role: rules.bindClusterRoles",
}
"""The permissions that a rule for this kind requires."""
_REQUIREMENT = re.compile(
    r"\s*(?:!\s*(?P<no>[\w./-]+)"
    r"|(?P<key>[\w./-]+)\s*"
    r"(?:(?P<sign>==?|!=)\s*(?P<value>[\w.-]*)|\s(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?"
    r")\s*(?:,|$)"
)
_GLOB_OF = re.compile(r"\^?([a-z0-9-]*)(\.\*|\[a-z0-9-?\]\*)?\$?")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedRule:
    """A rule to be printed, with what is said of it."""

    tool: str
    replaces: str
    """The kind and name of what the tool copies."""
    name: str
    spec: Mapping[str, Any] = field(repr=False)
    remarks: Sequence[str] = ()

    def manifest(self, home: str) -> dict[str, Any]:
        """The rule, in the namespace of trusted rules."""
        return {
            "apiVersion": names.RULE_API_VERSION,
            "kind": names.RULE_KIND,
            "metadata": {"name": self.name, "namespace": home},
            "spec": dict(self.spec),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCopies:
    """The copies of one source that a tool's annotations request."""

    tool: str
    kind: str
    namespace: str
    name: str
    namespaces: Sequence[str] = ()
    """Globs or names; empty: all."""
    exclude: Sequence[str] = ()
    selector: LabelSelector = ANY_LABELS
    copy_name: str | None = None
    remarks: Sequence[str] = ()

    @property
    def everywhere(self) -> bool:
        """Whether it is for every namespace."""
        return not self.namespaces and not self.exclude and self.selector.empty

    @property
    def base_name(self) -> str:
        """A name for its rule; other sources' rules may have the same."""
        text = f"{self.namespace}-{self.name}-{self.kind.lower()}"
        if self.copy_name:
            text += f"-as-{self.copy_name}"
        return re.sub(r"[^a-z0-9.-]+", "-", text.lower())[:240].strip("-.")

    def rule(self, name: str) -> MigratedRule:
        """The rule that does the same."""
        targets: dict[str, Any] = {}
        if self.namespaces or self.selector.empty:
            targets["namespaces"] = list(self.namespaces) or [ALL_NAMESPACES]
        if self.exclude:
            targets["exclude"] = list(self.exclude)
        if not self.selector.empty:
            targets["selector"] = _selector(self.selector)
        source = {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        spec: dict[str, Any] = {"source": source, "targets": targets}
        if self.copy_name:
            spec["transform"] = {"name": self.copy_name}
        return MigratedRule(
            tool=self.tool,
            replaces=f"{self.kind} {self.namespace}/{self.name}",
            name=name,
            spec=spec | {"onConflict": "Adopt"},
            remarks=self.remarks,
        )


def _selector(selector: LabelSelector) -> dict[str, Any]:
    """In a manifest's form: simple labels as matchLabels."""
    labels, expressions = {}, []
    for want in selector.requirements:
        if want.value is not None and want.key not in labels:
            labels[want.key] = want.value
        else:
            values = {"values": sorted(want.values)} if want.values else {}
            expressions.append({"key": want.key, "operator": str(want.operator), **values})
    return {
        **({"matchLabels": labels} if labels else {}),
        **({"matchExpressions": expressions} if expressions else {}),
    }


def requests(
    kind: str, bodies: Sequence[Mapping[str, Any]], known: Sequence[str]
) -> list[RequestedCopies]:
    """The requests in the annotations of objects of one kind; `known`: existing namespaces."""
    found: list[RequestedCopies] = []
    pulls: dict[tuple[str, str, str], list[ObjectName]] = {}
    for body in bodies:
        annotations, place = annotations_of(body), name_of(body)
        found += _replicator(kind, place, annotations, known)
        if kind in DATA_KINDS:
            found += _reflector(kind, place, annotations, known)
            if (text := annotations.get(SYNCER)) is not None:
                found.append(_labelled("config-syncer", kind, place, text))
        for tool, key in (
            ("kubernetes-replicator", f"{REPLICATOR}replicate-from"),
            ("reflector", f"{REFLECTOR}reflects"),
        ):
            if tool == "reflector" and kind not in DATA_KINDS:
                continue
            if (source := annotations.get(key)) and "/" in source:
                namespace, _, name = source.partition("/")
                pulls.setdefault((tool, namespace, name), []).append(place)
    return found + list(_pulled(kind, pulls))


def _replicator(
    kind: str, place: ObjectName, annotations: Mapping[str, str], known: Sequence[str]
) -> Iterator[RequestedCopies]:
    to = annotations.get(f"{REPLICATOR}replicate-to")
    matching = annotations.get(f"{REPLICATOR}replicate-to-matching")
    if to:
        globs, remarks = _globs(to, known)
        yield _requested("kubernetes-replicator", kind, place, namespaces=globs, remarks=remarks)
    if matching:
        yield _labelled("kubernetes-replicator", kind, place, matching)


def _reflector(
    kind: str, place: ObjectName, annotations: Mapping[str, str], known: Sequence[str]
) -> Iterator[RequestedCopies]:
    def is_on(name: str) -> bool:
        return annotations.get(f"{REFLECTOR}{name}", "").lower() == "true"

    if not (is_on("reflection-allowed") and is_on("reflection-auto-enabled")):
        return
    wanted = annotations.get(f"{REFLECTOR}reflection-auto-namespaces") or annotations.get(
        f"{REFLECTOR}reflection-allowed-namespaces", ""
    )
    globs, remarks = _globs(wanted, known) if wanted else ((), ())
    yield _requested("reflector", kind, place, namespaces=globs, remarks=remarks)


def _pulled(
    kind: str, pulls: Mapping[tuple[str, str, str], Sequence[ObjectName]]
) -> Iterator[RequestedCopies]:
    """Targets that name their source: one rule for each source and name of the copies."""
    for (tool, namespace, name), places in sorted(pulls.items()):
        by_name: dict[str, list[str]] = {}
        for there, copy in places:
            by_name.setdefault(copy, []).append(there)
        for copy, spaces in sorted(by_name.items()):
            yield _requested(
                tool,
                kind,
                ObjectName(namespace, name),
                namespaces=sorted(spaces),
                copy_name=None if copy == name else copy,
            )


def cluster_secret(body: Body, known: Sequence[str]) -> RequestedCopies:
    """A ClusterSecret, whose data is in itself or in a Secret that it names."""
    name = name_of(body).name
    globs, remarks = _globs(",".join(body.get("matchNamespace") or ()), known)
    avoid, more = _globs(",".join(body.get("avoidNamespaces") or ()), known)
    reference = ((body.get("data") or {}).get("valueFrom") or {}).get("secretKeyRef") or {}
    notes = [*remarks, *more]
    if not reference:
        notes.insert(0, f"the data is in the ClusterSecret: create the Secret {name} from it first")
    if reference.get("keys"):
        notes.append(f"only these keys: {', '.join(reference['keys'])} (spec.transform.keys)")
    source = str(reference.get("name") or name)
    return RequestedCopies(
        tool="ClusterSecret",
        kind="Secret",
        namespace=str(reference.get("namespace") or "default"),
        name=source,
        namespaces=globs,
        exclude=avoid,
        copy_name=None if source == name else name,
        remarks=notes,
    )


def _requested(tool: str, kind: str, place: ObjectName, **more: Any) -> RequestedCopies:
    remarks = tuple(more.pop("remarks", ()))
    if kind in _PERMISSIONS:
        remarks += (f'{_PERMISSIONS[kind]} (docs/rules.md, "Permission to grant permissions")',)
    return RequestedCopies(
        tool=tool, kind=kind, namespace=place.namespace, name=place.name, remarks=remarks, **more
    )


def _labelled(tool: str, kind: str, place: ObjectName, text: str) -> RequestedCopies:
    """To the namespaces of a selector; of one that can't be parsed, to none."""
    if (selector := _parsed(text)) is not None:
        return _requested(tool, kind, place, selector=selector)
    remark = f"{text!r} isn't a label selector: set spec.targets manually"
    return _requested(tool, kind, place, namespaces=(NOWHERE,), remarks=(remark,))


def _globs(text: str, known: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Comma-separated regular expressions as globs, or as the known namespaces that match."""
    found: list[str] = []
    remarks: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        simple = _GLOB_OF.fullmatch(part)
        if not part:
            continue
        if part in ("*", ".*"):
            return (), tuple(remarks)
        if simple and (simple[1] or simple[2]):
            found.append(simple[1] + ("*" if simple[2] else ""))
            continue
        meant = _matching(part, known)
        found += meant
        shown = ", ".join(meant) or "none"
        remarks.append(
            f"{part} can't be written as a glob; namespaces that it matches now: {shown}"
        )
    return tuple(dict.fromkeys(found)) or (NOWHERE,), tuple(remarks)


def _matching(pattern: str, known: Sequence[str]) -> list[str]:
    import re2  # noqa: PLC0415 - no pattern of somebody else's may run for ever

    try:
        compiled = re2.compile(pattern)
    except re2.error:
        return []
    return [name for name in known if compiled.fullmatch(name)]


def _parsed(text: str) -> LabelSelector | None:
    """A selector as Kubernetes' labels.Parse reads it; None where it isn't one."""
    requirements: list[Requirement] = []
    rest = text.strip()
    while rest:
        found = _REQUIREMENT.match(rest)
        if found is None or not (key := found["key"] or found["no"]):
            return None
        values = frozenset[str]()
        if found["no"]:
            operator = Operator.DOES_NOT_EXIST
        elif found["sign"]:
            operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
            values = frozenset((found["value"],))
        elif found["word"]:
            operator = Operator.IN if found["word"] == "in" else Operator.NOT_IN
            values = frozenset(value.strip() for value in found["values"].split(","))
        else:
            operator = Operator.EXISTS
        requirements.append(Requirement(key, operator, values))
        rest = rest[found.end() :]
    return LabelSelector.of(requirements)


TRUST_MANAGER: Final = "trust-manager"
SECRETGEN: Final = "secretgen-controller"
ALL_NAMESPACES: Final = "*"

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TARGETS: Final = {"configMap": ("ConfigMap", "data"), "secret": ("Secret", "stringData")}
_SOURCES: Final = {"configMap": "ConfigMap", "secret": "Secret"}
_STORES: Final = {"configMap": "binaryData", "secret": "data"}
"""The fields for additionalFormats, whose names are those of filters."""
_PASSWORDS: Final = {"jks": "changeit", "pkcs12": ""}
"""The defaults, as of the filters."""
_DEFAULT_CAS: Final = (
    "useDefaultCAs: the public CAs are those of Copyrator's image, or of --default-cas-file"
)
_NOT_ENCRYPTED: Final = (
    "the PKCS#12 trust store isn't encrypted, whatever its profile; its password only protects its "
    "integrity"
)


def bundle_rules(body: Body, trust_namespace: str) -> list[MigratedRule]:
    """The rules that do what a Bundle does: one for each target."""
    spec = body.get("spec") or {}
    name = name_of(body).name
    sources, parts, remarks = _sources(spec.get("sources") or (), trust_namespace)
    target = spec.get("target") or {}
    listed = f"[{', '.join(parts)}]"
    formats = target.get("additionalFormats") or {}
    stores = dict(_stores(formats, listed))
    if (formats.get("pkcs12") or {}).get("password"):
        remarks.append(_NOT_ENCRYPTED)
    found: list[MigratedRule] = []
    for place, (kind, data) in _TARGETS.items():
        if (wanted := target.get(place)) is None:
            continue
        metadata = {"name": name, **(wanted.get("metadata") or {})}
        template: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {key: value for key, value in metadata.items() if value},
            data: {str(wanted.get("key")): f"{{{{ {listed} | pem_bundle }}}}"},
        }
        template |= {_STORES[place]: stores} if stores else {}
        rule: dict[str, Any] = {"sources": sources} if sources else {}
        rule |= {"template": template}
        selector = target.get("namespaceSelector") or {}
        is_empty = not any(selector.values())
        rule["targets"] = {"namespaces": [ALL_NAMESPACES]} if is_empty else {"selector": selector}
        rule["onConflict"] = "Adopt"
        one = MigratedRule(
            tool=TRUST_MANAGER,
            replaces=f"{kind} {trust_namespace}/{name}",
            name=f"{name}-{kind.lower()}",
            spec=rule,
            remarks=tuple(remarks),
        )
        found.append(one)
    return found


def _sources(
    entries: Sequence[Mapping[str, Any]], namespace: str
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """The entries of spec.sources, what the template reads of each in order, and remarks."""
    sources: list[dict[str, Any]] = []
    parts: list[str] = []
    remarks: list[str] = []
    for entry in entries:
        if entry.get("useDefaultCAs"):
            remarks.append(_DEFAULT_CAS)
            alias = f"source{len(sources) + 1}"
            sources.append({"as": alias, "defaultCAs": True})
            parts.append(f"sources.{alias}")
        if text := entry.get("inLine"):
            parts.append(_literal("\n".join(_PEM.findall(str(text)))))
        for place, kind in _SOURCES.items():
            if not (wanted := entry.get(place)):
                continue
            alias = f"source{len(sources) + 1}"
            which = {part: wanted[part] for part in ("name", "selector") if wanted.get(part)}
            sources.append({"as": alias, "kind": kind, "namespace": namespace, **which})
            key = ALL_NAMESPACES if wanted.get("includeAllKeys") else str(wanted.get("key"))
            parts.append(f"sources.{alias} | pem_bundle(key={_literal(key)})")
    return sources, parts, list(dict.fromkeys(remarks))


def _stores(formats: Mapping[str, Any], listed: str) -> Iterator[tuple[str, str]]:
    """The keys of additionalFormats, and what makes their values."""
    for form, default in _PASSWORDS.items():
        if (wanted := formats.get(form)) is None:
            continue
        password = wanted.get("password", default)
        given = f"(password={_literal(password)})" if password != default else ""
        yield str(wanted.get("key")), f"{{{{ {listed} | {form}{given} | b64encode }}}}"


def _literal(text: str) -> str:
    """A text as Jinja2 writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def import_requests(
    imports: Sequence[Mapping[str, Any]], exports: Sequence[Mapping[str, Any]]
) -> Iterator[RequestedCopies]:
    """SecretImports as copies: one rule for each Secret that is imported."""
    offered = {name_of(one): one for one in exports}
    spaces: dict[ObjectName, list[str]] = {}
    for one in imports:
        namespace, name = name_of(one)
        source = ObjectName(str((one.get("spec") or {}).get("fromNamespace")), name)
        spaces.setdefault(source, []).append(namespace)
    for source, wanted in sorted(spaces.items()):
        export = offered.get(source)
        allowed = _allowed(export, wanted)
        remarks = [f"a new SecretImport of {source} needs an entry in spec.targets"]
        if left := sorted(set(wanted) - set(allowed)):
            why = "no SecretExport offers it" if export is None else "its SecretExport may not"
            remarks.append(f"left out, {why} there: {', '.join(left)}")
        if allowed:
            yield RequestedCopies(
                tool=SECRETGEN,
                kind="Secret",
                namespace=source.namespace,
                name=source.name,
                namespaces=tuple(sorted(allowed)),
                remarks=tuple(remarks),
            )


def _allowed(export: Mapping[str, Any] | None, wanted: Sequence[str]) -> list[str]:
    """The namespaces that an export offers its Secret to; with a selector all that import it."""
    if export is None:
        return []
    spec = export.get("spec") or {}
    static = {*(spec.get("toNamespaces") or ()), spec.get("toNamespace")}
    if ALL_NAMESPACES in static or spec.get("dangerousToNamespacesSelector"):
        return list(wanted)
    return [name for name in wanted if name in static]


_NEGATED = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}


def migrations(requests: Iterable[RequestedCopies]) -> list[MigratedRule]:
    """The rules that together do what the annotations request, each with a name of its own."""
    by_copy: dict[tuple[str, ...], list[RequestedCopies]] = {}
    for request in requests:
        source = request.kind, request.namespace, request.name
        by_copy.setdefault((*source, request.copy_name or request.name), []).append(request)
    taken = Counter(group[0].base_name for group in by_copy.values())
    found: list[MigratedRule] = []
    for copied, group in by_copy.items():
        name = group[0].base_name
        if taken[name] > 1:  # a-b/c and a/b-c: the same names in every run
            name += f"-{hashlib.sha256('/'.join(copied).encode()).hexdigest()[:6]}"
        for number, request in enumerate(_disjoint(list(_unite(group)), name), start=1):
            found.append(request.rule(name if number == 1 else f"{name}-{number}"))
    return found


def _unite(group: Sequence[RequestedCopies]) -> Iterator[RequestedCopies]:
    """Equal requests once, lists of namespaces as one; the whole cluster includes all others."""
    if all_of_it := [request for request in group if request.everywhere]:
        yield _combine(all_of_it[0], group)
        return
    listed = [request for request in group if not request.exclude and request.selector.empty]
    if listed:
        globs = dict.fromkeys(glob for request in listed for glob in request.namespaces)
        if len(globs) > 1:
            globs.pop(NOWHERE, None)
        yield replace(_combine(listed[0], listed), namespaces=tuple(globs))
    others: dict[tuple[Any, ...], list[RequestedCopies]] = {}
    for request in group:
        if request not in listed:
            where = (tuple(request.namespaces), tuple(request.exclude), request.selector)
            others.setdefault(where, []).append(request)
    for same in others.values():
        yield _combine(same[0], same)


def _combine(first: RequestedCopies, group: Sequence[RequestedCopies]) -> RequestedCopies:
    """`first`, with the tools and remarks of all."""
    tools = dict.fromkeys(request.tool for request in group)
    remarks = dict.fromkeys(remark for request in group for remark in request.remarks)
    return replace(first, tool=", ".join(tools), remarks=tuple(remarks))


def _disjoint(requests: Sequence[RequestedCopies], name: str) -> Iterator[RequestedCopies]:
    """Each without the namespaces of those before it: two rules for one copy are a conflict."""
    for position, request in enumerate(requests):
        for number, earlier in enumerate(requests[:position], start=1):
            request = _without(request, earlier, name if number == 1 else f"{name}-{number}")  # noqa: PLW2901
        yield request


def _without(request: RequestedCopies, earlier: RequestedCopies, name: str) -> RequestedCopies:
    requirements = earlier.selector.requirements
    if not requirements and not earlier.exclude:
        globs = [glob for glob in earlier.namespaces if glob != NOWHERE]
        return replace(request, exclude=(*request.exclude, *globs))
    if len(requirements) == 1 and not earlier.namespaces and not earlier.exclude:
        (one,) = requirements
        negated = Requirement(one.key, _NEGATED[one.operator], one.values)
        return replace(
            request, selector=LabelSelector.of((*request.selector.requirements, negated))
        )
    remark = (
        f"in a namespace that the rule {name} also targets, one of the two rules reports a conflict"
    )
    return replace(request, remarks=(*request.remarks, remark))


CLUSTER_SECRETS = Resource(
    "clustersecret.io", "v2", "clustersecrets", "ClusterSecret", namespaced=False
)

TRUST_BUNDLES = Resource("trust.cert-manager.io", "v1alpha1", "bundles", "Bundle", namespaced=False)
SECRET_IMPORTS = Resource("secretgen.carvel.dev", "v1alpha1", "secretimports", "SecretImport")
SECRET_EXPORTS = Resource("secretgen.carvel.dev", "v1alpha1", "secretexports", "SecretExport")
PLACEHOLDER = "secretgen.carvel.dev/image-pull-secret"
"""Annotation of Secrets that secretgen fills with all registries' credentials."""

COPIED = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS, ROLES, ROLEBINDINGS)
"""What one of these tools copies."""


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@click.option(
    "--trust-namespace",
    metavar="NAMESPACE",
    default="cert-manager",
    show_default=True,
    help="Namespace of the sources of trust-manager's Bundles.",
)
@object_option
async def migrate(
    target: Target, home: str | None, trust_namespace: str, shape: Format | None
) -> None:
    """Print rules that replace the annotations of other copying tools.

    It reads the annotations of kubernetes-replicator, reflector and
    config-syncer (metadata only), ClusterSecrets, trust-manager's Bundles, and secretgen's
    SecretImports and SecretExports. Nothing is changed. The rules adopt the copies
    that the tools made; docs/adoption.md has the order of steps.
    """
    found, where = await _find(target, home, trust_namespace)
    if not found:
        if shape in (Format.JSON, Format.YAML):
            show_all([], shape)
        click.echo("No object in this cluster is copied by these tools.", err=True)
        return
    if shape is None:
        for one in found:
            click.echo(f"---\n# {one.tool}: {one.replaces}")
            for remark in one.remarks:
                click.echo(f"# NOTE: {remark}")
            click.echo(yaml.safe_dump(one.manifest(where), sort_keys=False).rstrip())
    elif shape is Format.NAME:
        click.echo("\n".join(reference(one.manifest(where)) for one in found))
    else:
        show_all([one.manifest(where) for one in found], shape)
    tools = ", ".join(sorted({tool for one in found for tool in one.tool.split(", ")}))
    click.echo(
        f"{count(len(found), 'rule')} in place of {tools}. Stop the old tool first, then apply "
        "them: docs/adoption.md",
        err=True,
    )


async def _find(
    target: Target, home: str | None, trust_namespace: str
) -> tuple[list[MigratedRule], str]:
    async with target.connect() as client:
        installation = await find_installation(client, home)
        spaces = await listed(client, NAMESPACES, None, metadata_only=True)
        known = [name_of(body).name for body in spaces]
        found: list[RequestedCopies] = []
        for resource in COPIED:
            try:
                bodies = await listed(client, resource, None, metadata_only=True)
            except errors.Forbidden as error:
                if resource.kind in DATA_KINDS:
                    raise
                click.echo(f"Skipping {resource.plural}: {error}", err=True)
                continue
            found += requests(resource.kind, bodies, known)
            for body in bodies:
                if PLACEHOLDER in annotations_of(body):
                    click.echo(
                        f"Secret {name_of(body)} is filled by secretgen with "
                        "all exported registries' credentials: write one rule with spec.sources "
                        "and merge_dockerconfig instead (docs/composed.md)",
                        err=True,
                    )
        for body in await _all(client, CLUSTER_SECRETS):
            found.append(cluster_secret(body, known))
        exports = await _all(client, SECRET_EXPORTS)
        found += import_requests(await _all(client, SECRET_IMPORTS), exports)
        bundles = [
            rule
            for body in await _all(client, TRUST_BUNDLES)
            for rule in bundle_rules(body, trust_namespace)
        ]
    return [*migrations(found), *bundles], installation.settings.namespace


async def _all(client: KubeClient, resource: Resource) -> list[dict[str, Any]]:
    """All objects of a tool's kind; none where the tool isn't installed."""
    with suppress(errors.NotFound, errors.Forbidden):
        return await listed(client, resource, None)
    return []
