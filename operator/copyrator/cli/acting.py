"""The user of a dry run: the operator where the caller may impersonate its account."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from copyrator.cli.cluster import Target
from copyrator.cli.doctor_permissions import allowed
from copyrator.cli.installation import Installation
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import NAMESPACES, Resource

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


@dataclass(frozen=True, slots=True)
class Actor:
    """The user that sends the dry run's requests, and what that user may list."""

    target: Target
    who: str = ""
    """``you`` or a user's name; empty: the operator itself."""
    scopes: tuple[str, ...] = ()
    """The only namespaces that are read; empty: all of them."""
    note: str = ""
    """What is missing from the answer, as a note to the caller."""

    def tried(self, reported: str = "") -> str:
        """In brackets: the user of the dry run, and what the operator reported about the object."""
        if not self.who:
            return ""
        said = f"; the operator reported: {reported}" if reported else ""
        return f" (tried as {self.who}{said})"


async def actor_of(
    client: KubeClient, target: Target, installation: Installation, *near: str
) -> Actor:
    """Choose whom to act as; `near` are the namespaces that are read without cluster permissions.

    `client` is the user's own, without --as.
    """
    served = installation.settings.watch_namespaces
    if target.user and target.user == installation.user:
        return Actor(target, "", served)
    if target.user:
        async with target.connect() as impersonated:
            return await _limited(impersonated, target, installation, near)
    user, account = installation.user, installation.service_account
    if user and account:
        need = (ACCOUNTS, "", "impersonate", installation.namespace)
        if await _may(client, need, account):
            return Actor(dataclasses.replace(target, user=user), "", served)
    return await _limited(client, target, installation, near)


async def _limited(
    client: KubeClient, target: Target, installation: Installation, near: Sequence[str]
) -> Actor:
    """Act as the user of `client`, in the namespaces that are known where none may be listed."""
    served, who = installation.settings.watch_namespaces, target.user or "you"
    if served or await _may(client, (NAMESPACES, "", "list", None)):
        return Actor(target, who, served)
    scopes = tuple(dict.fromkeys([*near, installation.settings.namespace]))
    note = (
        f"You have no permission to list namespaces, so only {', '.join(scopes)} were read; what "
        "you have no permission to read in them is left out."
    )
    return Actor(target, who, scopes, note)


async def _may(
    client: KubeClient, need: tuple[Resource, str, str, str | None], name: str = ""
) -> bool:
    try:
        return await allowed(client, need, None, name)
    except errors.ApiError:
        return False
