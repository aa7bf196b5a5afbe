"""The kinds that commands accept, under all their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from copyrator.api import names
from copyrator.api.text import meant
from copyrator.cli.core.cluster import (
    Target,
    add_options,
    all_of,
    cluster_options,
    collect,
    complete_words,
)
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.output import Format
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, JOBS, PODS, RULES, Discovery, Resource
from copyrator.kube.watch.reflector import name_of
from copyrator.settings.config import KNOWN_KINDS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]
"""An object, as the API server has it."""
MANAGED = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"

WAYS_TO_STOP: Final = "All ways to stop: docs/guides.md#ways-to-stop"
"""Ends the help of a command that stops something."""

_ALIASES = {
    "rules": ("rule", "rules", "copyr", "copyrator", "copyrators", "copyratorrule"),
    "bundles": ("bundle", "bundles", "bndl"),
    "copies": ("copy", "copies"),
    "all": ("all",),
}
RESOURCES: Mapping[str, Resource] = {"rules": RULES, "bundles": BUNDLES}
SINGULAR = {"rules": "rule", "bundles": "bundle", "copies": "copy"}


def shown(what: str, body: Body) -> str:
    """``rule team-a/creds``."""
    return f"{SINGULAR[what]} {name_of(body)}"


def means(value: str, word: str) -> bool:
    """Whether a user's word is a spelling of ``rules``, ``bundles`` or another."""
    return value.lower() in _ALIASES[word]


class What(click.ParamType[str]):
    """``rules``, ``bundles`` or ``copies``, in any of their spellings."""

    name = "what"

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def find(self, text: str) -> str | None:
        """The plural form of a spelling."""
        return next((word for word in self.allowed if means(text, word)), None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The plural form."""
        if found := self.find(str(value)):
            return found
        advice = meant(str(value), self.allowed)
        return self.fail(f"{value!r} isn't one of {', '.join(self.allowed)}{advice}", param, ctx)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The choices, for an argument that wasn't given."""
        return f"Choose from: {', '.join(self.allowed)}"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """The completions that `kubectl` would offer."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        kind, slash, rest = incomplete.partition("/")
        if slash and (what := self.find(kind)) in SINGULAR:
            return complete_objects(ctx, what, f"{kind}/", rest)
        return [CompletionItem(word) for word in self.allowed if word.startswith(incomplete)]


class ObjectReference(NamedTuple):
    """One of several objects on a command line."""

    what: str
    """``rules``, ``bundles`` or ``copies``."""
    name: str
    """``[NAMESPACE/]NAME``."""


_WITH_KIND = f"{__name__}.with_kind"
"""Set in a context's `meta` if every name has its kind."""


class _KindArgument(click.Argument):
    """The kind of the objects that the arguments after it name.

    As with kubectl, it and the first name may be one argument, KIND/NAME. The values of the
    arguments after it move by one then; of several names each one has a kind.
    """

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        assert isinstance(opts, dict)
        self._split(ctx, opts)
        return super().handle_parse_result(ctx, opts, args)

    def _split(self, ctx: click.Context, opts: dict[str, Any]) -> None:
        first = opts.get(self.name)
        arguments = [param for param in ctx.command.params if isinstance(param, click.Argument)]
        following = arguments[arguments.index(self) + 1 :]
        is_list = following[0].nargs == -1
        kind, slash, name = first.partition("/") if isinstance(first, str) else ("", "", "")
        if not slash or self._find(kind) is None:
            names = opts.get(following[0].name)
            if is_list and isinstance(names, tuple):
                opts[following[0].name] = tuple(f"{first}/{name}" for name in names)
            return
        if not name:
            raise click.BadParameter(f"{first!r} has no name after the slash.", ctx, self)
        opts[self.name] = kind
        if is_list:
            ctx.meta[_WITH_KIND] = True
            others = opts.get(following[0].name)
            opts[following[0].name] = (first, *(others if isinstance(others, tuple) else ()))
            return
        values = [opts.pop(param.name, None) for param in following]
        values = [name, *(value for value in values if isinstance(value, str))]
        if len(values) > len(following):
            raise click.UsageError(f"Got unexpected extra argument ({values[-1]})", ctx)
        opts |= zip((param.name for param in following), values, strict=False)

    def _find(self, kind: str) -> str | None:
        assert isinstance(self.type, What)
        found = self.type.find(kind)
        return found if found in SINGULAR else None

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        return "'KIND'"


class _NameArgument(click.Argument):
    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        return "'NAME'"


class _ReferenceType(click.ParamType[ObjectReference]):
    """``KIND/[NAMESPACE/]NAME``, as `_KindArgument` leaves it."""

    name = "reference"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ObjectReference:
        """With the plural form of the kind."""
        kind, slash, name = str(value).partition("/")
        assert ctx is not None
        what = next(one.type for one in ctx.command.params if isinstance(one, _KindArgument))
        assert isinstance(what, What)
        if not slash or not name:
            example = f"{SINGULAR[str(ctx.params['what'])]}/{value}"
            self.fail(f"{value!r} has no kind, and the first name has one: {example}", param, ctx)
        return ObjectReference(what.convert(kind, param, ctx), name)


def object_arguments(*kinds: str, required: bool = True) -> Callable[..., Any]:
    """Decorate a command with ``what`` and ``name``: KIND NAME, or KIND/NAME."""
    name = click.argument(
        "name",
        cls=_NameArgument,
        metavar="[NAMESPACE/]NAME)" if required else "[[NAMESPACE/]NAME]]",
        required=required,
        shell_complete=complete_names,
    )
    what = click.argument(
        "what",
        cls=_KindArgument,
        type=What(*kinds),
        metavar="(KIND/NAME | KIND" if required else "[KIND/NAME | KIND",
        required=required,
    )
    return lambda command: add_options(command, (what, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOptions:
    """The options of a command about one object; the last three only where it has them."""

    target: Target
    name: str
    """``[NAMESPACE/]NAME``."""
    what: str = "bundles"
    """``rules`` or ``bundles``."""
    timeout: float = 0.0
    """Seconds to wait; 0 doesn't wait."""
    waits: bool = False
    """Whether to wait for what the command starts, too."""
    shape: Format | None = None

    async def read(self, client: KubeClient) -> dict[str, Any]:
        """The object.

        Raises:
            Fault: there is none.
        """
        return await one(client, self.what, *self.target.locate(self.name))


def object_options(*kinds: str) -> Callable[..., Any]:
    """Decorate a command with KIND NAME and the cluster's options; it gets them as `options`.

    Without kinds: the NAME of a Bundle.
    """
    name = click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
    arguments = object_arguments(*kinds) if kinds else name

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        command = cluster_options()(collect(function, "options", ObjectOptions))
        return cast("Callable[..., Any]", arguments(command))

    return decorate


def objects_arguments(*kinds: str) -> Callable[..., Any]:
    """Decorate a command with ``what`` and ``wanted``: KIND NAME..., KIND/NAME..., or KIND."""
    wanted = click.argument(
        "wanted",
        cls=_NameArgument,
        metavar="[[NAMESPACE/]NAME]...)",
        nargs=-1,
        type=_ReferenceType(),
        shell_complete=complete_names,
    )
    what = click.argument(
        "what", cls=_KindArgument, type=What(*kinds), metavar="(KIND/NAME... | KIND"
    )
    return lambda command: add_options(command, (what, wanted))


def complete_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the existing objects. Without access to the cluster it completes nothing."""
    if ctx.meta.get(_WITH_KIND):
        kinds = next(one.type for one in ctx.command.params if isinstance(one, _KindArgument))
        return kinds.shell_complete(ctx, param, incomplete)
    return complete_objects(ctx, str(ctx.params.get("what", "bundles")), "", incomplete)


def complete_objects(
    ctx: click.Context, what: str, lead: str, incomplete: str
) -> list[CompletionItem]:
    """The same for objects of a kind, after ``lead``."""
    namespace, slash, _ = incomplete.rpartition("/")

    async def names(target: Target) -> list[str]:
        return [f"{lead}{namespace}{slash}{name}" for name in await _names(target, what)]

    return complete_words(ctx, f"{lead}{incomplete}", names, namespace)


async def _names(target: Target, what: str) -> list[str]:
    async with target.connect() as client:
        if what == "copies":
            found = (await find_copies(client, [target.namespace])).bodies
        else:
            found = await listed(client, RESOURCES[what], target.namespace, metadata_only=True)
    return sorted({name_of(body).name for body in found})


async def listed(
    client: KubeClient,
    resource: Resource,
    namespace: str | None,
    *,
    selector: str | None = None,
    metadata_only: bool = False,
) -> list[dict[str, Any]]:
    """All objects of a kind, with apiVersion and kind, by namespace and name."""
    found: list[dict[str, Any]] = []
    async for page in client.list_pages(
        resource, namespace, label_selector=selector, metadata_only=metadata_only
    ):
        for body in page.items:
            found.append({**body, "apiVersion": resource.api_version, "kind": resource.kind})  # noqa: PERF401
    found.sort(key=name_of)
    return found


async def jobs_of(
    client: KubeClient, namespace: str, bundle: str, more: str = ""
) -> list[dict[str, Any]]:
    """A Bundle's Jobs that match ``more``, a selector, by name.

    One with a name that is too long for a release has none, and no selector may have that name.
    """
    if len(bundle) > names.MAX_RELEASE_NAME:
        return []
    selector = ",".join(filter(None, (f"{names.LABEL_BUNDLE}={bundle}", more)))
    return await listed(client, JOBS, namespace, selector=selector)


async def pods_of(client: KubeClient, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pods with the label of a Job, which others may set, too: look at their owners."""
    namespace, name = name_of(job)
    selector = f"batch.kubernetes.io/job-name={name}"
    return await listed(client, PODS, namespace, selector=selector)


async def listed_in(
    client: KubeClient,
    resource: Resource,
    scopes: Sequence[str | None],
    selector: str | None = None,
) -> list[dict[str, Any]]:
    """All objects of a kind, by namespace in this order; None is the whole cluster."""
    found = await all_of(listed(client, resource, one, selector=selector) for one in scopes)
    return [body for bodies in found for body in bodies]


def annotations_of(body: Mapping[str, Any]) -> Mapping[str, str]:
    """The object's annotations."""
    return body["metadata"].get("annotations") or {}


def is_set_to_suspend(body: Mapping[str, Any]) -> bool:
    """Whether spec.suspend is true; the old form of a rule has none."""
    spec = body.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("suspend"))


async def one(client: KubeClient, what: str, namespace: str, name: str) -> dict[str, Any]:
    """A rule or Bundle; where there is none, the error names the namespaces that have one.

    Raises:
        Fault: there is none.
    """
    resource = RESOURCES[what]
    try:
        return await client.get(resource, namespace, name)
    except errors.NotFound as error:
        if error.kind_missing:
            raise
    elsewhere: list[str] = []
    with suppress(errors.ApiError):
        everywhere = await listed(client, resource, None, metadata_only=True)
        elsewhere = [there for there, other in map(name_of, everywhere) if other == name]
    advice = (
        f"there is one in {', '.join(elsewhere)}: add -n {elsewhere[0]}"
        if elsewhere
        else f"{hint('get', what, '-A')} lists all"
    )
    raise Fault(f"there is no {resource.kind} {name} in the namespace {namespace}; {advice}")


def named_kinds(rules: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """The kinds that rules copy, each with its API version, if a rule sets one."""
    from copyrator.api.rule_spec import parse_rule  # noqa: PLC0415
    from copyrator.api.schema import InvalidSpec  # noqa: PLC0415

    specs = map(parse_rule, rules)
    return {spec.kind: spec.api_version for spec in specs if not isinstance(spec, InvalidSpec)}


async def copy_kinds(
    client: KubeClient, named: Mapping[str, str | None], known: Iterable[str] = KNOWN_KINDS
) -> list[Resource]:
    """The kinds that copies can be of: the known ones and those that rules name."""
    versions: dict[str, str | None] = {kind.partition(".")[0]: None for kind in known}
    versions |= named
    discovery = Discovery(client)
    found: dict[str, Resource] = {}
    for kind, version in versions.items():
        with suppress(errors.KindUnavailable, errors.AmbiguousKind):
            resource = await discovery.resolve(kind, version)
            if resource.namespaced:
                found[resource.key] = resource
    return list(found.values())


@dataclass(frozen=True, slots=True)
class ListedCopies:
    """The kinds that copies can be of, and the existing copies, without their content."""

    resources: list[Resource]
    bodies: list[dict[str, Any]]
    named: Collection[str]
    """The kinds that rules copy, as far as the user may list rules; others perhaps nobody copies.
    """
    denied: list[tuple[Resource, errors.Forbidden]] = field(default_factory=list)
    """What the user may not list."""


async def find_copies(
    client: KubeClient, scopes: Sequence[str | None], selector: str | None = None
) -> ListedCopies:
    """Find the copies in namespaces (None: in all), as far as the user may list them.

    Raises:
        Forbidden: no kind may be listed.
    """
    named = named_kinds(await _visible_rules(client, scopes))
    found = ListedCopies(await copy_kinds(client, named), [], named)
    labels = f"{MANAGED},{selector}" if selector else MANAGED
    places = list(product(found.resources, scopes))

    async def list_in(
        resource: Resource, scope: str | None
    ) -> list[dict[str, Any]] | errors.Forbidden:
        try:
            return await listed(client, resource, scope, selector=labels, metadata_only=True)
        except errors.Forbidden as error:
            return error

    for place, bodies in zip(places, await all_of(starmap(list_in, places)), strict=True):
        if isinstance(bodies, errors.Forbidden):
            found.denied.append((place[0], bodies))
        else:
            found.bodies.extend(body for body in bodies if names.ANN_RULE in annotations_of(body))
    if found.denied and len(found.denied) == len(places):
        raise found.denied[0][1]
    return found


async def _visible_rules(client: KubeClient, scopes: Sequence[str | None]) -> list[dict[str, Any]]:
    """All rules; where the user may not list those, the ones in these namespaces."""
    with suppress(errors.Forbidden):
        return await listed(client, RULES, None)
    with suppress(errors.Forbidden):
        return await listed_in(client, RULES, [scope for scope in scopes if scope is not None])
    return []


NOT_SHOWN: Final = "Not shown, because you have no permission to list them"


def skipped(denied: Sequence[errors.Forbidden]) -> str:
    """A note about what the user may not list; empty where that is nothing."""
    if not denied:
        return ""
    kinds: dict[str, None] = {}
    for error in denied:
        refusal = error.refusal
        where = f"in {refusal.namespace}" if refusal and refusal.namespace else "in all namespaces"
        kinds[f"{refusal.permission.resource} {where}" if refusal else error.message] = None
    return f"{NOT_SHOWN}: {', '.join(kinds)}."
