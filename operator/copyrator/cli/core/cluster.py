"""The options by which every command finds its cluster, and its client."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from copyrator.kube.client.client import KubeClient

Command = TypeVar("Command", bound=Callable[..., Any])
Client = TypeVar("Client", bound="KubeClient")
T = TypeVar("T")

PATIENCE = 10.0
"""Seconds that the completion of a name may take."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The cluster, and the namespaces in it."""

    kubeconfig: Path | None = None
    context: str | None = None
    user: str | None = None
    """To be impersonated."""
    namespace_option: str | None = None
    everywhere: bool = False

    @property
    def namespace(self) -> str:
        """The namespace of a name without one."""
        from copyrator.kube.auth import default_namespace  # noqa: PLC0415 - not for --help

        return self.namespace_option or default_namespace(self.kubeconfig, self.context)

    @property
    def scope(self) -> str | None:
        """The namespace of a list; None is the whole cluster."""
        return None if self.everywhere else self.namespace

    def locate(self, text: str) -> tuple[str, str]:
        """Namespace and name of ``namespace/name``, or of a name in this namespace."""
        before, slash, name = text.partition("/")
        return (before, name) if slash else (self.namespace, text)

    def connect(self) -> AbstractAsyncContextManager[KubeClient]:
        """A client for the cluster, closed at the end."""
        from copyrator.kube.client.client import KubeClient  # noqa: PLC0415 - not for --help

        return self.connect_with(KubeClient)

    @asynccontextmanager
    async def connect_with(self, make: Callable[..., Client]) -> AsyncIterator[Client]:
        """The same with a subclass of the client."""
        from copyrator.kube.auth import load_connection  # noqa: PLC0415 - not for --help

        connection = await load_connection(self.kubeconfig, self.context)
        connection.impersonate = self.user
        async with make(connection) as client:
            yield client


def complete_words(
    ctx: click.Context,
    incomplete: str,
    read: Callable[[Target], Coroutine[Any, Any, Iterable[str]]],
    namespace: str = "",
) -> list[CompletionItem]:
    """Words that are read from the cluster. Without access to it: none."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415

    with suppress(Exception):
        target = Target(
            kubeconfig=ctx.params.get("kubeconfig"),
            context=ctx.params.get("context"),
            namespace_option=namespace or ctx.params.get("namespace_option"),
        )
        found = asyncio.run(asyncio.wait_for(read(target), PATIENCE))
        return [CompletionItem(word) for word in found if word.startswith(incomplete)]
    return []


def complete_namespaces(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Namespaces; the context's own if the user may not list them."""
    from copyrator.kube import errors  # noqa: PLC0415 - not for --help
    from copyrator.kube.resources import NAMESPACES  # noqa: PLC0415 - the same

    async def read(target: Target) -> list[str]:
        async with target.connect() as client:
            try:
                pages = client.list_pages(NAMESPACES, None, metadata_only=True)
                found = [body["metadata"]["name"] async for page in pages for body in page.items]
            except errors.Forbidden:
                return [target.namespace]
        return sorted(found)

    return complete_words(ctx, incomplete, read)


_CLUSTER = (
    click.option(
        "--kubeconfig",
        envvar="KUBECONFIG",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Kubeconfig file; default: $KUBECONFIG, the pod's service account, ~/.kube/config.",
    ),
    click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig; default: its current one."
    ),
    click.option("--as", "user", metavar="USER", help="User to impersonate."),
)
_NAMESPACE = click.option(
    "-n",
    "--namespace",
    "namespace_option",
    metavar="NAME",
    help="Namespace; default: the context's.",
    shell_complete=complete_namespaces,
)
_EVERYWHERE = click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces."
)


def add_options(command: Callable[..., Any], options: Sequence[Any]) -> Callable[..., Any]:
    """Decorate a command with options, in the order of its help."""
    for option in reversed(options):
        command = option(command)
    return command


def cluster_options(*, namespace: bool = True, everywhere: bool = False) -> Callable[..., Any]:
    """Decorate a command with the cluster's options; it gets them as `target`.

    A coroutine function is run.
    """
    options = [*_CLUSTER]
    options += [_NAMESPACE] if namespace else []
    options += [_EVERYWHERE] if everywhere else []

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return add_options(collect(function, "target", Target), options)

    return decorate


def collect(function: Callable[..., Any], name: str, made: type[Any]) -> Callable[..., Any]:
    """A command that gets the values of a dataclass' fields, as one of it, by this name."""
    fields = [field.name for field in dataclasses.fields(made)]

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        found = {field: values.pop(field) for field in fields if field in values}
        answer = function(**{name: made(**found)}, **values)
        return run(answer) if asyncio.iscoroutine(answer) else answer

    return command


@asynccontextmanager
async def ahead(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Begin work whose result is awaited in the block; at the block's end it is cancelled.

    Its error is raised where it is awaited, so the first one in the order of the code is printed,
    whichever comes first.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do work side by side; of several errors the first one in order is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work. The operator's own code logs; its log lines aren't printed."""
    if not gc.isenabled():  # see main
        gc.freeze()
        gc.enable()
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
