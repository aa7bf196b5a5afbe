"""What a registry can't do by its signatures: hide a fault of its own, or cost much."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, Handler, answering, registry_client
from tests.component.oci.signed_registry import SignedRegistry
from tests.long import LONG
from tests.signature_layout import (
    EMPTY_TYPE,
    INDEX_TYPE,
    digest_of,
    encoded,
    fallback_tag,
    index,
    notation,
    payloads,
    sigstore_bundle,
)
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.signature_manifest import REFERRERS_BYTES
from copyrator.oci.signatures import (
    REFERRERS_PAGES,
    SIGNATURES_BYTES,
    SignatureFinder,
)
from copyrator.signatures.judge import judge
from copyrator.signatures.model import SIGNATURE_BYTES, SIGNATURES, CosignKeys, SignatureRequirement
from localcluster.signing import new_key, public_key

MB = 1024 * 1024
STAGES = ("artifact", "list", "fallback tag", "sig tag", "manifest", "blob", "payload")


@pytest.fixture
def stages(signed: SignedRegistry) -> dict[str, str]:
    """A signature of each kind; what is in the path of each request that a find makes."""
    digest = signed.sign()
    signed.push(index(), fallback_tag(signed.digest))
    signed.sign_by_tag((b"payload", "by one"))
    tag = fallback_tag(signed.digest)
    paths = [
        f"/manifests/{signed.digest}",
        f"/referrers/{signed.digest}",
        f"/manifests/{tag}",
        f"/manifests/{tag}.sig",
        f"/manifests/{digest}",
        f"/blobs/{digest_of(b'a bundle')}",
        f"/blobs/{digest_of(b'payload')}",
    ]
    return dict(zip(STAGES, paths, strict=True))


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut(request: web.Request) -> web.StreamResponse:
    """Ends in the middle of the body, or of the headers of a HEAD."""
    if request.method == "HEAD":
        return await reset(request)
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.close()
    return response


FAULTS: dict[str, tuple[Any, type[RegistryError]]] = {
    "500": (answering(500), RegistryUnreachable),
    "502": (answering(502), RegistryUnreachable),
    "503": (answering(503), RegistryUnreachable),
    "504": (answering(504), RegistryUnreachable),
    "429": (answering(429), RateLimited),
    "401 with a challenge": (
        answering(401, WWW_Authenticate='Basic realm="x"'),
        AuthenticationFailed,
    ),
    "reset": (reset, RegistryUnreachable),
    "cut": (cut, RegistryUnreachable),
}
OTHERS: dict[str, tuple[str, ...]] = {
    "artifact": (),
    "list": ("sig tag",),
    "fallback tag": ("list", "sig tag"),
    "sig tag": ("list",),
    "manifest": ("sig tag",),
    "blob": ("sig tag",),
    "payload": ("list",),
}
"""Where else signatures are: without them only this stage leads to one."""


def fail_at(
    signed: SignedRegistry, stages: dict[str, str], stage: str, fault: Handler, *empty: str
) -> None:
    """A fault at a stage; nothing is at those that are empty."""

    async def faulty(request: web.Request) -> web.StreamResponse:
        if request.path.endswith(stages[stage]):
            return await fault(request)
        if any(request.path.endswith(stages[one]) for one in empty):
            return web.Response(status=404)
        return await signed.respond(request)

    signed.fault = faulty


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        (stage, fault)
        for m, stage in enumerate(STAGES)
        for n, fault in enumerate(FAULTS)
        if LONG or (m + n) % 3 == 0
    ],
)
async def test_a_fault_of_the_registry_is_never_no_signature(
    signed: SignedRegistry,
    stages: dict[str, str],
    stage: str,
    fault: str,
) -> None:
    assert len((await signed.find()).signatures) == 2
    handler, expected = FAULTS[fault]
    fail_at(signed, stages, stage, handler, *OTHERS[stage])

    with pytest.raises(expected):
        await signed.find()


@pytest.mark.parametrize("stage", ["artifact", "manifest", "blob", "payload"])
async def test_what_is_listed_and_forbidden_is_never_no_signature(
    signed: SignedRegistry, stages: dict[str, str], stage: str
) -> None:
    fail_at(signed, stages, stage, answering(403), *OTHERS[stage])

    with pytest.raises(AuthenticationFailed):
        await signed.find()


@pytest.mark.parametrize("stage", STAGES[1:])
@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "429"])
async def test_a_fault_in_one_place_does_not_hide_signatures_in_others(
    signed: SignedRegistry,
    stages: dict[str, str],
    stage: str,
    fault: str,
) -> None:
    fail_at(signed, stages, stage, FAULTS[fault][0])

    found = await signed.find()

    assert len(found.signatures) == (2 if stage == "fallback tag" else 1)
    (skipped,) = found.skipped
    assert skipped.startswith("not all signatures can be read: 127.0.0.1:")


async def test_a_wrong_signature_never_passes_because_another_place_failed(
    signed: SignedRegistry, stages: dict[str, str]
) -> None:
    pem = public_key(new_key()).encode()
    asked = [SignatureRequirement("spec.verify", (CosignKeys("keys", {"cosign.pub": pem}),))]
    for stage in ("list", "fallback tag", "sig tag"):
        for fault in (answering(500), answering(403)):
            fail_at(signed, stages, stage, fault)
            found = await signed.find()
            assert found.signatures
            verdict = judge(found, asked, datetime(2026, 11, 26, tzinfo=UTC))
            assert not verdict.is_trusted
            assert verdict.skipped == found.skipped


async def test_a_list_on_another_host_or_an_invalid_one_does_not_hide_signatures_either(
    signed: SignedRegistry, stages: dict[str, str]
) -> None:
    far = answering(200, '{"manifests": []}', Link="<//elsewhere/>; rel=next")
    for fault in (answering(200, "{", Content_Type=INDEX_TYPE), far):
        fail_at(signed, stages, "list", fault)
        assert len((await signed.find()).signatures) == 1


NOTHING_THERE = (400, 401, 403, 404, 405, 406, 409, 410, 412, 414, 415, 416, 418, 422, 451, 501)


@pytest.mark.parametrize("stage", ["list", "fallback tag", "sig tag"])
@pytest.mark.parametrize("status", NOTHING_THERE)
async def test_a_registry_that_refuses_a_look_up_has_nothing_there(
    signed: SignedRegistry,
    stages: dict[str, str],
    stage: str,
    status: int,
) -> None:
    fail_at(signed, stages, stage, answering(status))
    found = await signed.find()
    assert len(found.signatures) == (2 if stage == "fallback tag" else 1)
    assert found.skipped == ()

    fail_at(signed, stages, stage, answering(status), *OTHERS[stage])
    assert (await signed.find()).signatures == ()


@pytest.mark.parametrize("status", [401, 403])
async def test_the_target_of_a_redirect_that_refuses_is_a_fault(
    signed: SignedRegistry,
    registry: FakeRegistry,
    stages: dict[str, str],
    status: int,
) -> None:
    registry.fault = answering(status)
    moved = answering(307, Location=f"http://{registry.host}/signed-url")
    fail_at(signed, stages, "sig tag", moved, *OTHERS["sig tag"])

    with pytest.raises(AuthenticationFailed):
        await signed.find()


@pytest.mark.parametrize("stage", STAGES)
async def test_a_registry_that_hangs_is_unreachable(
    signed: SignedRegistry, stages: dict[str, str], stage: str
) -> None:
    signed.client = registry_client(0.3)

    async def hanging(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    fail_at(signed, stages, stage, hanging, *OTHERS[stage])

    with pytest.raises(RegistryUnreachable, match="didn't respond in time"):
        await signed.find()


async def test_signatures_that_were_read_count_when_the_time_is_up(
    signed: SignedRegistry, stages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    signed.client, loop = registry_client(600.0), asyncio.get_running_loop()

    async def hanging(_: web.Request) -> web.StreamResponse:
        monkeypatch.setattr(loop, "time", lambda: time.monotonic() + 60)  # the others are read
        await asyncio.Event().wait()
        return web.Response()

    fail_at(signed, stages, "sig tag", hanging)

    signed.finder = SignatureFinder(signed.client, seconds=30)
    found = await signed.find()

    assert len(found.signatures) == 1
    assert "reading the signatures of sha256:" in found.skipped[0]


DEEP = '{"x": ' + "[" * 100_000
BROKEN_LISTS = ["", "[]", '{"manifests": 1}', '{"manifests": [{}]}', DEEP]
TOO_LONG = '{"manifests": []}'.ljust(REFERRERS_BYTES + 1)


@pytest.mark.parametrize("body", [*BROKEN_LISTS, TOO_LONG], ids=range(len(BROKEN_LISTS) + 1))
async def test_a_broken_list_of_referrers_is_a_fault(signed: SignedRegistry, body: str) -> None:
    signed.fault, signed.fault_at = answering(200, body, Content_Type=INDEX_TYPE), "/referrers/"

    with pytest.raises(
        InvalidResponse, match=f"invalid list of referrers|longer than {REFERRERS_BYTES} bytes"
    ):
        await signed.find()


@pytest.mark.parametrize(
    "answer",
    [
        answering(400),
        answering(404),
        answering(405),
        answering(406),
        answering(200, "<p>Not found</p>", Content_Type="text/html; charset=utf-8"),
        answering(200, '{"manifests": []}', Content_Type="application/json"),
        answering(303, Location="/v2/elsewhere"),
    ],
)
async def test_a_registry_that_has_no_list_of_referrers(
    signed: SignedRegistry, answer: Any
) -> None:
    signed.has_referrers = False
    signed.sign()
    signed.fault, signed.fault_at = answer, "/referrers/"

    found = await signed.find()

    assert len(found.signatures) == 1
    assert len(signed.asked) == 6, "the redirect to a web page isn't followed"


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("<http://elsewhere.example/v2/>; rel=next", "page of referrers on another host"),
        ("<?>; rel=next", "endless list of referrers"),
        ("<?a>; rel=next", "doesn't have the next page"),
        ("rel=next", "isn't a URL"),
    ],
)
async def test_a_broken_next_page_is_a_fault(
    signed: SignedRegistry, link: str, message: str
) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        if request.query_string == "a":
            return web.Response(status=404)
        return web.Response(
            body=encoded(index()), headers={"Content-Type": INDEX_TYPE, "Link": link}
        )

    signed.fault, signed.fault_at = page, "/referrers/"

    with pytest.raises(InvalidResponse, match=message):
        await signed.find()


async def test_pages_without_end_are_read_up_to_a_limit(signed: SignedRegistry) -> None:
    signed.sign()
    pages = 0

    async def page(request: web.Request) -> web.StreamResponse:
        nonlocal pages
        pages += 1
        answer = await signed.respond(request)
        answer.headers["Link"] = f"<?page={pages}>; rel=next"
        return answer

    signed.fault, signed.fault_at = page, "/referrers/"

    found = await signed.find()

    assert pages == REFERRERS_PAGES
    assert len(found.signatures) == 1
    assert found.skipped == (f"not more than {REFERRERS_PAGES} pages of referrers are read",)


@pytest.mark.parametrize("at", ["manifest", "blob", "payload"])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answering(404), "the registry lists it but doesn't have it"),
        (answering(400), "responds with 400"),
        (answering(200, "another"), "responds with sha256:"),
    ],
)
async def test_a_signature_that_is_broken_is_skipped_and_others_count(
    signed: SignedRegistry,
    stages: dict[str, str],
    at: str,
    answer: Any,
    reason: str,
) -> None:
    other = signed.sign(b"another bundle")
    signed.fault, signed.fault_at = answer, stages[at]

    found = await signed.find()

    digest = digest_of(b"payload") if at == "payload" else signed.entries[0]["digest"]
    assert len(found.signatures) == 2
    assert other in [one.digest for one in found.signatures]
    (skipped,) = found.skipped
    assert skipped.startswith(f"{digest}: ")
    assert reason in skipped


def changed(signed: SignedRegistry, **fields: object) -> dict[str, Any]:
    return sigstore_bundle(signed.bundle, signed.store(b"a bundle")) | fields


BAD_DIGEST = {"mediaType": "", "digest": "sha512:" + "a" * 128, "size": 1}


async def test_signatures_whose_manifest_cannot_be_used_are_skipped(signed: SignedRegistry) -> None:
    good = changed(signed)
    layer, other = good["layers"][0], {"digest": digest_of(b"another bundle of charts")}
    wrong = {
        "refers to another one": {"subject": other},
        "but refers to another": {"subject": None},
        "exactly one layer": {"layers": [layer, layer]},
        "have exactly one": {"layers": []},
        "isn't a valid image manifest": {"layers": 1},
        "a valid image manifest": {"layers": None},
        "layer isn't sha256": {"layers": [layer | BAD_DIGEST | {"mediaType": layer["mediaType"]}]},
        "application/json isn't supported": {"layers": [layer | {"mediaType": "application/json"}]},
        "another type isn't supported": {"layers": [layer | {"mediaType": "\x1b[31m" * 99}]},
        "more than 262144 bytes": {"layers": [layer | {"size": SIGNATURE_BYTES + 1}]},
    }
    for fields in wrong.values():
        signed.attach(good | fields)
    kept = signed.attach(good)

    found = await signed.find()

    assert [one.digest for one in found.signatures] == [kept]
    for reason in wrong:
        assert any(reason in sentence for sentence in found.skipped), reason
    assert signed.count("GET", "/blobs/") == 1


async def test_a_list_that_points_elsewhere_or_back_is_not_followed(signed: SignedRegistry) -> None:
    """To the bundle itself, to the list, to a referrer of a referrer, and twice to the same."""
    digest = signed.sign()
    signed.entries *= 2
    second = encoded(sigstore_bundle(encoded(changed(signed)), b"a bundle"))
    signed.push(second)
    looped = signed.push(index({"digest": signed.digest}))
    for one in (signed.digest, looped, digest_of(second)):
        signed.entries.append({"digest": one})
    signed.entries.append(BAD_DIGEST)
    signed.push(index(*signed.entries, {"digest": looped}), fallback_tag(signed.digest))

    found = await signed.find()

    assert [one.digest for one in found.signatures] == [digest]
    assert len(signed.asked) == 4 + 2 + 3
    assert set(found.skipped) == {
        "referrers whose digest isn't sha256 aren't read",
        f"{looped}: its manifest isn't a valid image manifest",
        f"{digest_of(second)}: it is listed for this digest, but refers to another one",
    }


async def test_a_tag_that_the_registry_takes_for_the_digest_is_no_list(
    signed: SignedRegistry,
) -> None:
    """GitLab's registry answers for sha256-HEX with the manifest sha256:HEX."""
    signed.has_referrers = False
    child = signed.push(changed(signed))
    signed.bundle = encoded(index({"digest": child}))
    signed.digest = signed.push(signed.bundle, fallback_tag(digest_of(signed.bundle)))

    found = await signed.find()

    assert (found.signatures, found.skipped) == ((), ())
    assert len(signed.asked) == 4


@pytest.mark.parametrize("suffix", ["", ".sig"])
@pytest.mark.parametrize("body", ['{"manifests": 1}', "[", TOO_LONG], ids=range(3))
async def test_a_tag_that_cannot_be_used_is_named(
    signed: SignedRegistry, suffix: str, body: str
) -> None:
    signed.sign()
    tag = fallback_tag(signed.digest) + suffix
    signed.fault, signed.fault_at = answering(200, body), f"/manifests/{tag}"
    if not suffix:
        signed.fault = tag_only(signed, tag, body)

    found = await signed.find()

    assert len(found.signatures) == 1
    (sentence,) = found.skipped
    assert sentence.startswith(f"the tag {tag} ")


def tag_only(signed: SignedRegistry, tag: str, body: str) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith(f"/manifests/{tag}"):
            return web.Response(text=body)
        return await signed.respond(request)

    return answer


@pytest.mark.parametrize(
    ("page", "kind"),
    list(product([0, 1000, None], ["", EMPTY_TYPE, None]))
    if LONG
    else [(0, ""), (1000, EMPTY_TYPE), (None, None)],
)
async def test_of_ten_thousand_signatures_the_newest_are_read(
    signed: SignedRegistry, page: int | None, kind: str | None
) -> None:
    signed.referrers_page = page or 0
    for number in range(10_000):
        created = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        entry = {"annotations": {"org.opencontainers.image.created": created}, "size": 500}
        if kind is not None:
            entry["artifactType"] = kind
        if number % 200:
            signed.entries.append(entry | {"digest": digest_of(f"{number}".encode())})
        else:
            entry["artifactType"] = "application/vnd.dev.sigstore.bundle.v0.3+json"
            signed.attach(changed(signed, annotations={"n": str(number)}), **entry)
    known = [one["digest"] for one in signed.entries[::200]]
    if page is None:
        signed.push(index(*signed.entries), fallback_tag(signed.digest))
        signed.has_referrers = False

    with measured_steps() as steps:
        found = await signed.find()

    assert [one.digest for one in found.signatures] == known
    (sentence,) = found.skipped
    assert sentence.endswith(
        f"and others: not read, since at most {SIGNATURES} signatures of a digest are"
    )
    assert signed.count("GET", "/manifests/") == 2 + SIGNATURES
    assert steps.longest < STEP_SECONDS, steps.where


async def test_the_newest_signatures_are_preferred(signed: SignedRegistry) -> None:
    for number in range(SIGNATURES + 1):
        signed.sign(b"a bundle", created=f"2026-01-{(number + 9) % (SIGNATURES + 1):03}")
    oldest = signed.entries[-9]["digest"]

    found = await signed.find()

    assert len(found.signatures) == SIGNATURES
    assert found.skipped == (
        f"{oldest}: not read, since at most {SIGNATURES} signatures of a digest are",
    )


async def test_of_many_payloads_the_last_are_read(signed: SignedRegistry) -> None:
    signed.sign()
    signed.sign_by_tag(*((f"payload {number}".encode(), "x") for number in range(200)))

    found = await signed.find()

    assert len(found.signatures) == SIGNATURES
    assert found.signatures[1].blob == b"payload 151"
    assert found.signatures[-1].blob == b"payload 199"
    assert len(found.skipped) == 1
    assert signed.count("GET", "/blobs/") == SIGNATURES


@pytest.mark.parametrize("at", ["/blobs/", "manifest"])
async def test_a_long_answer_that_does_not_say_so_is_not_read_to_its_end(
    signed: SignedRegistry, at: str
) -> None:
    digest = signed.sign()
    sent = 0

    async def long(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 100 * MB:
            await response.write(b" " * MB)
            sent += MB
        return response

    signed.fault, signed.fault_at = long, at if at == "/blobs/" else f"/manifests/{digest}"

    found = await signed.find()

    (sentence,) = found.skipped
    assert sentence.startswith(f"{digest}: ")
    assert "a response is longer than 262144 bytes" in sentence
    assert sent < 50 * MB


async def test_all_signatures_together_are_bounded(signed: SignedRegistry) -> None:
    for number in range(20):
        signed.sign(f"{number:02}".encode() * (SIGNATURE_BYTES // 2))

    found = await signed.find()

    assert sum(len(one.blob) for one in found.signatures) == SIGNATURES_BYTES
    assert len(found.signatures) == SIGNATURES_BYTES // SIGNATURE_BYTES
    (sentence,) = found.skipped
    assert sentence.endswith(f"all signatures of a digest may have {SIGNATURES_BYTES} bytes")


async def test_few_sentences_say_why_however_many_are_skipped(signed: SignedRegistry) -> None:
    for number in range(40):
        manifest = notation(signed.bundle, b"an envelope", f"application/{number}")
        signed.attach(manifest)

    found = await signed.find()

    assert len(found.skipped) == 10
    assert found.skipped[-1].endswith(" and others: not read for other reasons")
    assert all(len(sentence) < 300 for sentence in found.skipped)


@pytest.mark.parametrize("count", [1, SIGNATURES + 1])
async def test_nothing_that_a_registry_says_is_repeated_unchecked(
    signed: SignedRegistry, count: int
) -> None:
    manifest = payloads(*[(signed.store(b"payload"), "by one")] * count)
    for layer in manifest["layers"]:
        layer["digest"] = "\x1b[31m" + "a" * 1000
    signed.push(manifest, fallback_tag(signed.digest) + ".sig")
    signed.entries = [{"digest": "\x1b[31m"}]

    found = await signed.find()

    assert found.signatures == ()
    assert "one without a sha256 digest: the digest of its layer isn't sha256" in " ".join(
        one.replace(" and others", "") for one in found.skipped
    )
    assert all(one.isprintable() and len(one) < 200 for one in found.skipped)
