"""Whose attestations are trusted, by ``spec.promoteFrom.attestations``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from copyrator.api.schema import SpecError
from copyrator.bundles.evidence.key_files import Contents, describe_ref, read_public_keys
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.promotion.fields import AttestationsFrom
from copyrator.bundles.jobs.identity import hash_of
from copyrator.signatures.model import SIGNATURE_KEYS, CosignKeys, TrustError, canonical_entry

_ATTESTATIONS: Final = "spec.promoteFrom.attestations"
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Attesters:
    """The keys that are trusted for attestations. Equal ones have equal keys."""

    key: str = ""
    """Hash of everything else; empty: no attestation is required."""
    environments: tuple[CosignKeys, ...] = field(default=(), compare=False)
    """Each with its name."""
    fault: str = field(default="", compare=False)
    """Why some can't be used, so that nothing is promoted."""

    def __bool__(self) -> bool:
        return bool(self.key)


NO_ATTESTERS: Final = Attesters()


def read_attesters(
    namespace: str, named: Sequence[AttestationsFrom], contents: Contents, asked: Asked
) -> Attesters:
    """The keys of the environments in ``spec.promoteFrom.attestations``.

    A key that is trusted for signatures isn't used: who may sign an image would promote it.
    Call it in a thread: it loads cryptography and parses keys.

    Raises:
        SpecError: a key is in the entries of two environments.
    """
    from copyrator.signatures.keys import identify, identify_all  # noqa: PLC0415

    signers = dict(identify_all(asked.requirements))
    usable: list[CosignKeys] = []
    faults: list[str] = []
    environments: dict[bytes, str] = {}
    for one in named:
        where = f"the keys of {one.environment}, {describe_ref(one.keys_from, namespace)}"
        try:
            found = read_public_keys(one.keys_from, namespace, contents)
        except TrustError as error:
            faults.append(str(error))
            continue
        for file, key in found.keys.items():
            identity = identify(file, key)
            other = environments.setdefault(identity, one.environment)
            if other != one.environment:
                text = f"the key {file} of {one.environment} is also a key of {other}"
                raise SpecError(_ATTESTATIONS, f"{text}; each environment needs keys of its own")
            if identity in signers:
                text = f"{where}: {file} is trusted for signatures by {signers[identity]}"
                faults.append(f"{text}; attest with another key")
        usable.append(CosignKeys(one.environment, found.keys))
    if len(environments) > SIGNATURE_KEYS:
        text = f"{_ATTESTATIONS} has {len(environments)} keys; at most {SIGNATURE_KEYS} are used"
        faults.append(text)
    hashed = hash_of(list(map(canonical_entry, usable)), faults)
    return Attesters(hashed, tuple(usable), "; ".join(faults[:_NAMED]))
