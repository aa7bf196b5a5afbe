"""Attestations are found where signatures are, apart from them, and all of them or none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.kube.fake_api import hang
from tests.component.oci.fake_registry import answering
from tests.component.oci.signed_registry import SignedRegistry
from tests.signature_layout import (
    BUNDLE_TYPE,
    IMAGE_TYPE,
    SIGN,
    bundle_of_chart,
    digest_of,
    encoded,
    fallback_tag,
    index,
    listed,
    sigstore_bundle,
)

from copyrator.oci import signatures
from copyrator.oci.errors import RegistryError
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.model import (
    ATTESTATION_BYTES,
    ATTESTATIONS,
    DEPLOYED_PREDICATE,
    Signature,
)

TOO_LARGE = b"x" * (ATTESTATION_BYTES + 1)
PROVENANCE = "https://slsa.dev/provenance/v1"


def attest(registry: SignedRegistry, blob: bytes = b"attested", **layout: str) -> str:
    return registry.sign(blob, **{"predicate": DEPLOYED_PREDICATE} | layout)


async def find(registry: SignedRegistry) -> tuple[Signature, ...]:
    return (await registry.finder.find_attestations(registry.app, registry.digest, None)).signatures


async def count_others(registry: SignedRegistry) -> int:
    return (await registry.finder.find_attestations(registry.app, registry.digest, None)).others


async def test_a_digest_without_attestations_takes_two_requests(either: SignedRegistry) -> None:
    assert await find(either) == ()
    assert either.paths == [
        f"referrers/{either.digest}",
        f"manifests/{fallback_tag(either.digest)}",
    ]


async def test_an_attestation_is_found_and_not_read_again(either: SignedRegistry) -> None:
    digest = attest(either)

    (found,) = await find(either)

    assert (found.digest, found.blob) == (digest, b"attested")
    assert len(either.asked) == 4
    assert await find(either) == (found,)
    assert len(either.asked) == 6, "only the lists are read again"


@pytest.mark.promise
async def test_a_list_that_names_an_attestation_of_another_digest_hides_it_from_nobody(
    signed: SignedRegistry,
) -> None:
    """It may be a withdrawal, and who lists it elsewhere another tenant."""
    attest(signed)
    async with SignedRegistry(bundle=bundle_of_chart("2.0.0"), entries=signed.entries) as other:
        other.untagged.update(signed.untagged)
        other.finder = signed.finder

        assert await find(other) == ()
        assert [one.blob for one in await find(signed)] == [b"attested"]


async def test_signatures_and_other_attestations_are_left_out_and_do_not_count(
    either: SignedRegistry,
) -> None:
    for i in range(60):
        either.sign(b"%d" % i)
        either.sign(b"%d" % i, predicate=PROVENANCE)
    either.sign_by_notation()
    either.attach(sigstore_bundle(either.bundle, b"", predicate=PROVENANCE), annotations=None)
    attest(either)

    assert [one.blob for one in await find(either)] == [b"attested"]
    assert await count_others(either) == 61, "attestations, and no signatures"


async def test_the_list_and_the_tag_of_one_digest_are_read_together(signed: SignedRegistry) -> None:
    """What was mirrored may be only in the tag's index."""
    attest(signed, b"in both")
    other = sigstore_bundle(
        signed.bundle, signed.store(b"in the tag"), predicate=DEPLOYED_PREDICATE
    )
    signed.push(other)
    entries = [*signed.entries, listed(encoded(other))]
    signed.push(index(*entries), fallback_tag(signed.digest))

    assert {one.blob for one in await find(signed)} == {b"in both", b"in the tag"}


async def test_two_hundred_are_read_and_one_more_is_too_many(signed: SignedRegistry) -> None:
    signed.referrers_page = 90
    for i in range(ATTESTATIONS):
        attest(signed, b"%d" % i)
    assert len(await find(signed)) == ATTESTATIONS
    asked = len(signed.asked)

    attest(signed, b"one more")

    with pytest.raises(RegistryError, match="at most 200 attestations of a digest are"):
        await find(signed)
    assert len(signed.asked) == asked + 4, "the lists, and none of them"


async def test_ten_thousand_statements_are_too_many_and_none_is_read(
    signed: SignedRegistry,
) -> None:
    entry = listed(encoded(sigstore_bundle(signed.bundle, b"x", predicate=DEPLOYED_PREDICATE)))
    signed.entries = [entry | {"digest": digest_of(b"%d" % i)} for i in range(10_000)]
    signed.referrers_page = 2_000

    with pytest.raises(RegistryError, match="at most 200"):
        await find(signed)
    assert len(signed.asked) == 6, "the lists"


UNREADABLE = [
    *((where, 500) for where in ("referrers", "manifests/sha256-", "manifests/sha256:", "blobs")),
    *((where, status) for where in ("manifests/sha256:", "blobs") for status in (401, 403)),
]


@pytest.mark.parametrize(("where", "status"), UNREADABLE)
async def test_what_cannot_be_read_is_never_taken_for_absent(
    signed: SignedRegistry, where: str, status: int
) -> None:
    attest(signed)
    signed.fault, signed.fault_at = answering(status), f"/{where}"

    with pytest.raises(RegistryError):
        await find(signed)

    signed.fault = None
    assert len(await find(signed)) == 1


async def test_who_may_not_see_the_lists_finds_nothing(signed: SignedRegistry) -> None:
    """Registries without such lists answer so, too; without evidence nothing is promoted."""
    attest(signed)
    signed.fault, signed.fault_at = answering(403), "/referrers"

    assert await find(signed) == ()


async def test_a_registry_that_hangs_is_not_waited_for(signed: SignedRegistry) -> None:
    attest(signed)
    signed.fault, signed.fault_at = hang(), "/blobs/"
    signed.finder = SignatureFinder(signed.client, seconds=0.2)

    with pytest.raises(RegistryError, match=r"reading the attestations of .* takes more"):
        await find(signed)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda it, _: it.attach(
                sigstore_bundle(
                    it.bundle, b"x" * (ATTESTATION_BYTES + 1), predicate=DEPLOYED_PREDICATE
                )
            ),
            f"more than {ATTESTATION_BYTES} bytes",
        ),
        (
            lambda it, _: it.attach(no_bundle(it, layers=[layer(size=ATTESTATION_BYTES + 1)])),
            rf"sha256:[0-9a-f]{{64}}: .* more than {ATTESTATION_BYTES} bytes",
        ),
        (
            lambda it, _: it.entries.append(
                {"digest": digest_of(b"big"), "artifactType": BUNDLE_TYPE, "size": 1_000_000}
            ),
            f"{digest_of(b'big')}: not read, since its manifest has more than",
        ),
    ],
    ids=["too large", "too large without annotations", "too large manifest"],
)
async def test_one_that_is_listed_and_unusable_makes_all_unusable(
    signed: SignedRegistry, change: object, why: str
) -> None:
    digest = attest(signed)
    assert callable(change)
    change(signed, digest)

    with pytest.raises(RegistryError, match=why):
        await find(signed)


GONE = {
    "manifest": lambda it, digest: it.untagged.pop(("team/app", digest)),
    "blob": lambda it, _: it.blobs.clear(),
    "never there": lambda it, _: it.entries.append(
        {"digest": digest_of(b"never"), "artifactType": BUNDLE_TYPE, "size": 9}
    ),
}


@pytest.mark.parametrize("gone", GONE)
async def test_one_that_is_listed_but_gone_counts_as_not_listed(
    either: SignedRegistry, gone: str
) -> None:
    deleted = attest(either, b"deleted")
    GONE[gone](either, deleted)
    attest(either, b"stands")

    found = await find(either)

    assert [one.blob for one in found if one.blob != b"deleted"] == [b"stands"]
    assert (len(found) == 2) == (gone == "never there")
    assert await count_others(either) == 0


async def test_one_that_comes_later_than_its_entry_is_read_then(signed: SignedRegistry) -> None:
    """A mirror may have the list before the manifest."""
    digest = attest(signed)
    kept = signed.untagged.pop(("team/app", digest))
    assert await find(signed) == ()

    signed.untagged["team/app", digest] = kept

    assert len(await find(signed)) == 1


def no_bundle(registry: SignedRegistry, **changes: object) -> dict[str, Any]:
    made = sigstore_bundle(registry.bundle, registry.store(b"theirs"))
    return made | {"annotations": {}} | changes


def layer(**changes: object) -> dict[str, Any]:
    return {"mediaType": BUNDLE_TYPE, "digest": digest_of(b"theirs"), "size": 6} | changes


OTHERS = {
    "provenance": lambda it: sigstore_bundle(it.bundle, TOO_LARGE, predicate=PROVENANCE),
    "in-toto layer": lambda it: no_bundle(
        it, layers=[layer(mediaType="application/vnd.in-toto+json", size=10**9)]
    ),
    "two layers": lambda it: no_bundle(it, layers=[layer(), layer()]),
    "no layer": lambda it: no_bundle(it, layers=[]),
    "sha512 layer": lambda it: no_bundle(it, layers=[layer(digest=f"sha512:{'0' * 128}")]),
    "of another digest": lambda it: sigstore_bundle(b"other", b"x", predicate=DEPLOYED_PREDICATE),
    "without subject": lambda it: no_bundle(it, subject=None),
}


@pytest.mark.parametrize("tool", OTHERS)
async def test_another_tools_under_the_same_type_is_passed_over_and_counted(
    either: SignedRegistry, tool: str
) -> None:
    attest(either)
    either.attach(OTHERS[tool](either), annotations=None)

    for _ in range(2):  # read, and kept
        assert [one.blob for one in await find(either)] == [b"attested"]
        assert await count_others(either) == 1


OF_NO_TYPE = {"mediaType": IMAGE_TYPE, "config": {"mediaType": ""}}


@pytest.mark.parametrize(
    "manifest",
    [
        {"manifests": []},
        {"artifactType": BUNDLE_TYPE, "blobs": []},
        {"artifactType": "application/spdx+json", "layers": []},
    ],
    ids=["index", "artifact manifest", "another type"],
)
async def test_what_is_listed_without_its_type_may_be_no_attestation(
    either: SignedRegistry, manifest: dict[str, Any]
) -> None:
    attest(either)
    either.attach(OF_NO_TYPE | manifest, annotations=None, artifactType=None)

    assert [one.blob for one in await find(either)] == [b"attested"]
    assert await count_others(either) == 0


async def test_what_is_kept_is_bounded(
    signed: SignedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "ATTESTATIONS_KEPT", 5)
    for i in range(6):
        attest(signed, b"%d" % i)
    await find(signed)
    asked = len(signed.asked)

    assert len(await find(signed)) == 6

    assert len(signed.asked) > asked + 2, "the first one was forgotten"


async def test_a_signature_that_is_annotated_as_ours_is_not_hidden_by_that(
    signed: SignedRegistry,
) -> None:
    signed.sign(b"a bundle", predicate=SIGN)
    attest(signed, b"a bundle")

    assert len(await find(signed)) == 1
