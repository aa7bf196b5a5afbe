"""Checks of the operator's signature policy, and of the versions that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from copyrator.api.bundle_spec import LocalObjectRef
from copyrator.api.counts import count
from copyrator.api.fields import SpecError
from copyrator.api.verify import refs_of
from copyrator.bundles.inputs.reader import files_of, verify_ref
from copyrator.bundles.trust.policy import (
    CONFIG_MAP,
    REQUIRED,
    Contents,
    PolicyEntry,
    policy_in,
    read_requirement,
)
from copyrator.cli import rows
from copyrator.cli.doctor_check import Check
from copyrator.cli.installation import Installation
from copyrator.cli.objects import listed
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import BUNDLES, CONFIGMAPS
from copyrator.signatures.keyless import MISSING

WHAT: Final = "Signatures"
_NAMED: Final = 3
"""Bundles and faults that a line names."""


async def signatures(client: KubeClient, installation: Installation) -> Check:
    """Whether the signature policy can be used, and what runs without being trusted."""
    policy, runs = await _policy(client, installation), await _runs(client, installation)
    found = {policy.good, runs.good}
    good = False if False in found else None if None in found else True
    return Check(WHAT, good, f"{policy.said}; {runs.said}")


async def _runs(client: KubeClient, installation: Installation) -> Check:
    """The Bundles that run a version that isn't trusted."""
    untrusted: list[str] = []
    try:
        for scope in installation.settings.scopes:
            found = await listed(client, BUNDLES, scope)
            untrusted += sorted(_shown(body) for body in found if rows.is_untrusted(body))
    except errors.ApiError as error:
        return Check(WHAT, None, f"Bundles can't be listed: {error.message}")
    if not untrusted:
        return Check(WHAT, True, "no running version is untrusted")
    runs = "runs a version that isn't" if len(untrusted) == 1 else "run versions that aren't"
    said = f"{count(len(untrusted), 'Bundle')} {runs} trusted: {_first(untrusted, ', ')}"
    return Check(WHAT, False, said)


async def _policy(client: KubeClient, installation: Installation) -> Check:
    """The policy and the objects with keys that it names."""
    home = installation.settings.namespace
    where = f"ConfigMap {home}/{CONFIG_MAP}"
    contents: dict[LocalObjectRef, Mapping[str, bytes] | None] = {}
    try:
        policy = policy_in(await client.get(CONFIGMAPS, home, CONFIG_MAP))
        for ref in {ref for entry in policy.entries for ref in refs_of(entry.any_of)}:
            contents[ref] = await _files(client, home, ref)
    except errors.NotFound:
        if installation.settings.require_signature_policy:
            return Check(WHAT, False, f"{where} {REQUIRED}: nothing new is deployed")
        said = "no policy of the operator: only spec.verify of Bundles requires signatures"
        return Check(WHAT, True, said)
    except errors.ApiError as error:
        return Check(WHAT, None, f"{where} or its keys can't be read: {error.message}")
    except SpecError as error:
        return Check(WHAT, False, f"{where}: {error}; nothing new is deployed")
    faults = [fault for entry in policy.entries for fault in _faults(entry, home, contents)]
    if faults:
        only_here = all(MISSING in fault for fault in faults)  # the operator's image may have it
        return Check(WHAT, None if only_here else False, f"{where}: {_first(faults, '; ')}")
    entries = count(len(policy.entries), "entry", "entries")
    return Check(WHAT, True, f"{where} has {entries}, default {policy.default}")


def _faults(entry: PolicyEntry, home: str, contents: Contents) -> tuple[str, ...]:
    return read_requirement(entry.name, home, entry.any_of, contents)[1]


async def _files(
    client: KubeClient, namespace: str, ref: LocalObjectRef
) -> Mapping[str, bytes] | None:
    there = verify_ref(namespace, ref)
    try:
        return files_of(ref, await client.get(there.resource, there.namespace, there.name))
    except errors.NotFound:
        return None


def _first(found: Sequence[str], separator: str) -> str:
    more = f"{separator}and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return separator.join(found[:_NAMED]) + more


def _shown(body: Mapping[str, Any]) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"
