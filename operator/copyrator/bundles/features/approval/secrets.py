"""The Secrets of plans: their names, their kinds, and how a Job accepts one. Pure."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

from copyrator.bundles.jobs import seal
from copyrator.bundles.jobs.script import SealedFile

OPERATIONS: Final = "operations"
"""The key of the text of a plan."""


class PlanSecret(StrEnum):
    """The content of a Secret of a plan's Job, and how long it is kept."""

    OPERATIONS = "operations"
    """A plan: until another one replaces it."""
    INPUTS = "inputs"
    """Hashes of values and variables: likewise, and while its plan is the deployed one."""


def operations_secret(job: str) -> str:
    """Name of the Secret with the operations that a plan Job found, and their salt."""
    return f"{job}-operations"


def inputs_secret(job: str) -> str:
    """Name of the Secret with the hashes of what a plan was made of besides the chart."""
    return f"{job}-inputs"


def release_secret(bundle: str, slot: int) -> str:
    """Name of a Secret with what the approved plans of a Bundle's release had."""
    return f"{bundle}-release-objects-{slot}"


def approved_operations(hash_: str) -> SealedFile:
    """The file with the operations that were approved."""
    return seal.mounted(seal.ADDED_DIR, OPERATIONS, f"{seal.COPIES}/approved", hash_)


def keyed_hash(key: bytes, *parts: bytes) -> str:
    """The hash of some parts that only who has the key can compute: 32 hexadecimal digits."""
    found = hashlib.blake2b(key=key, digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8) + part)
    return found.hexdigest()
