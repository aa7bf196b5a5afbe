"""What the API server's answers mean: errors, refusals, and what is too much or too deep."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.schema import NOT_WHOLE, OBJECT_CONTAINERS, TOO_DEEP, TOO_MANY
from copyrator.kube import errors
from copyrator.kube.client.answers import (
    MOST,
    containers,
    decode_event,
    decode_page,
    dropped_fields,
    flattened,
    from_answer,
    from_foreign_answer,
    lines,
    read,
)
from copyrator.kube.client.transport import redact
from copyrator.kube.errors import (
    AnswerTooLarge,
    Forbidden,
    Gone,
    NotFound,
    Permission,
    Refusal,
    Unauthorized,
)
from copyrator.kube.resources import JOBS
from hostile.mangled import JSON

# --- From an HTTP answer to an error: what the API server, webhooks and proxies say, and mean -----


def status(reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "reason": reason, "message": message, "details": details}


@pytest.mark.parametrize(
    ("code", "body", "kind", "reason"),
    [
        (400, status("BadRequest"), errors.BadRequest, "BadRequest"),
        (429, status("TooManyRequests"), errors.TooManyRequests, "TooManyRequests"),
        (403, status("Forbidden"), errors.Forbidden, "Forbidden"),
        (
            403,
            status("Forbidden", causes=[{"reason": "NamespaceTerminating"}]),
            errors.NamespaceTerminating,
            "NamespaceTerminating",
        ),
        (
            403,
            status("Forbidden", "exceeded quota: q, requested: secrets=1"),
            errors.QuotaExceeded,
            "QuotaExceeded",
        ),
        (
            403,
            status("Forbidden", "failed quota: q: must specify limits.cpu"),
            errors.QuotaExceeded,
            "QuotaExceeded",
        ),
        (
            422,
            status("Invalid", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: x"),
            errors.AdmissionDenied,
            "AdmissionDenied",
        ),
        (409, status("AlreadyExists"), errors.AlreadyExists, "AlreadyExists"),
        (409, status("Conflict"), errors.ConflictError, "Conflict"),
        (410, status("Expired"), errors.Gone, "Expired"),
        (410, status("Gone"), errors.Gone, "Gone"),
        (413, status("RequestEntityTooLarge"), errors.TooLarge, "TooLarge"),
        (
            422,
            status("Invalid", "data: Too long: may not be more than 1048576 bytes"),
            errors.TooLarge,
            "TooLarge",
        ),
        (
            500,
            status("", "etcdserver: request is too large"),
            errors.TooLarge,
            "TooLarge",
        ),
        (422, status("Invalid", "must be no more than 63 characters"), errors.Invalid, "Invalid"),
        (500, status("InternalError"), errors.ServerError, "InternalError"),
        (504, status("Timeout"), errors.ServerError, "Timeout"),
        (502, None, errors.ServerError, "InternalError"),
        (404, None, errors.NotFound, "NotFound"),
        (418, None, errors.ApiError, "Unknown"),
        (403, {"message": None, "details": None, "reason": None}, errors.Forbidden, "Forbidden"),
        (403, {"details": {"causes": "odd"}}, errors.Forbidden, "Forbidden"),
        (403, {"details": []}, errors.Forbidden, "Forbidden"),
    ],
)
def test_an_answer_is_classified(
    code: int, body: Any, kind: type[errors.ApiError], reason: str
) -> None:
    error = from_answer(code, body)
    assert type(error) is kind
    assert error.reason == reason
    assert error.status == code
    assert error.message


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (
            "q, requested: secrets=1, used: secrets=3, limited: secrets=3",
            "the ResourceQuota q counts secrets: 3 of 3 used, 1 requested",
        ),
        (
            "q, requested: count/a.b=1,cpu=5, used: count/a.b=2,cpu=2, limited: count/a.b=2,cpu=2",
            "the ResourceQuota q counts count/a.b: 2 of 2 used, 1 requested; cpu: 2 of 2 used, 5",
        ),
        ("q, requested: secrets=1", "exceeded quota: q, requested: secrets=1"),
        ("q, requested: a, used: b, limited: c", "exceeded quota: q, requested: a, used: b, lim"),
    ],
)
def test_a_quota_is_named_with_what_it_counts(numbers: str, said: str) -> None:
    refused = 'secrets "a" is forbidden: '
    error = from_answer(403, status("Forbidden", f"{refused}exceeded quota: {numbers}"))
    assert error.message.startswith(f"{refused}{said}")
    assert isinstance(error, errors.QuotaExceeded)


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({}, {}, None),
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry-After": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({"Retry-After": "86400"}, {}, 300.0),
        ({"Retry-After": "-5"}, {}, 0.0),
        ({"Retry-After": "soon"}, {}, None),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            {},
            30.0,
        ),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, {}, None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(
    headers: dict[str, str], details: dict[str, Any], seconds: float | None
) -> None:
    assert from_answer(429, status(**details), headers).retry_after == seconds


@pytest.mark.parametrize(
    ("message", "immutable"),
    [
        ("data: Forbidden: field is immutable when `immutable` is set", True),
        ('type: Invalid value: "a/b": field is immutable', True),
        ('roleRef: Invalid value: {"name":"edit"}: cannot change roleRef', True),
        ('spec.clusterIPs[0]: Invalid value: "None": may not change once set', True),
        (
            "spec: Forbidden: updates to statefulset spec for fields other than x are forbidden",
            True,
        ),
        ("spec: Invalid value: Value is immutable", True),
        ("metadata.name: Invalid value: must be lower case", False),
    ],
)
def test_an_immutable_field_is_recognised(message: str, immutable: bool) -> None:
    assert from_answer(422, status("Invalid", message)).immutable is immutable  # type: ignore[attr-defined]
    caused = status("Invalid", "is invalid", causes=[{"message": message}])
    assert from_answer(422, caused).immutable is immutable  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "all_", "transient"),
    [
        (errors.Unreachable("x"), True, True),
        (errors.BrokenAnswer("x"), True, True),
        (errors.TooManyRequests("x"), True, True),
        (errors.ServerError("etcd is away"), True, True),
        (errors.ServerError('failed calling webhook "x"'), False, True),
        (errors.Unauthorized("x"), True, False),
        (errors.Forbidden("x"), False, False),
        (errors.NotFound("x"), False, False),
    ],
)
def test_what_concerns_everybody_is_told_from_what_concerns_one(
    error: errors.ApiError, all_: bool, transient: bool
) -> None:
    assert error.concerns_all is all_
    assert error.transient is transient


@pytest.mark.parametrize(
    ("sent", "quoted"),
    [
        ({"data": {"k": "aHVudGVyMg=="}}, "aHVudGVyMg=="),
        ({"data": {"k": "aHVudGVyMg=="}}, "hunter2"),
        ({"stringData": {"k": "hunter2"}}, "hunter2"),
        ({"stringData": {"a": "hunter", "b": "hunter2"}}, "hunter2"),
        ([{"op": "add", "path": "/data/k", "value": "aHVudGVyMg=="}], "aHVudGVyMg=="),
        ([{"op": "add", "path": "/data", "value": {"k": "aHVudGVyMg=="}}], "hunter2"),
        ({"data": None, "stringData": {"k": 5}}, None),
        ({"data": {"k": "/wD//v8="}}, "/wD//v8="),
    ],
)
def test_a_secrets_values_are_taken_out_of_what_comes_back(sent: Any, quoted: str | None) -> None:
    message = redact(f"the server quotes: {quoted} and more", sent)
    if quoted:
        assert quoted not in message
        assert "hunter" not in message
        assert message == "the server quotes: <redacted> and more"


@pytest.mark.parametrize(
    ("warnings", "fields"),
    [
        ((), set()),
        (('299 - "unknown field \\"spec.ingres\\""',), {"spec.ingres"}),
        (('299 - "unknown field \\"spec.a\\""', '299 - "unknown field \\"b\\""'), {"spec.a", "b"}),
        (('299 - "unknown field \\"spec.ingress[0].port\\""',), {"spec.ingress[0].port"}),
        (('299 - "unknown field \\"größe\\""',), {"größe"}),
        (('299 - "unknown field \\"a\x1b[31m\\""',), {"a[31m"}),
        (('299 - "unknown field \\"' + "a" * 300 + '\\""',), set()),
        (('299 - "policy/v1beta1 PodDisruptionBudget is deprecated"',), set()),
        (('299 - "duplicate field \\"spec.a\\""',), set()),
        (('299 - "would violate PodSecurity \\"restricted:latest\\""',), set()),
    ],
)
def test_the_fields_that_warnings_name_as_dropped(warnings, fields):
    assert dropped_fields(warnings) == fields


# --- What the API server's 403s say is missing ----------------------------------------------------


USER = 'User "system:serviceaccount:copyrator:copyrator"'


def refusal(message, **details):
    error = from_answer(403, {"reason": "Forbidden", "message": message, "details": details})
    assert isinstance(error, Forbidden)
    return error.refusal


@pytest.mark.parametrize(
    ("message", "details", "expected", "said"),
    [
        (
            (
                f'secrets "a" is forbidden: {USER} cannot get resource "secrets" in API group "" '
                'in the namespace "team"'
            ),
            {"name": "a"},
            Refusal(Permission("", "secrets", "get"), "team", "a"),
            "get secrets in team",
        ),
        (
            (
                f'namespaces is forbidden: {USER} cannot list resource "namespaces" '
                'in API group "" at the cluster scope'
            ),
            {},
            Refusal(Permission("", "namespaces", "list")),
            "list namespaces in all namespaces",
        ),
        (
            (
                f'bundles.operator.werf.dev "b" is forbidden: {USER} cannot patch resource '
                '"bundles/status" in API group "operator.werf.dev" in the namespace "team": '
                "RBAC: role not found"
            ),
            {"name": "b"},
            Refusal(Permission("operator.werf.dev", "bundles/status", "patch"), "team", "b"),
            "patch bundles.operator.werf.dev/status in team",
        ),
    ],
)
def test_a_missing_right_is_read_in_rbacs_words(message, details, expected, said):
    found = refusal(message, **details)
    assert found == expected
    assert str(found) == said


def test_a_subresource_is_asked_for_apart():
    found = Refusal(Permission("operator.werf.dev", "bundles/status", "patch"), "team", "b")
    assert found.attributes["resource"] == "bundles"
    assert found.attributes["subresource"] == "status"


@pytest.mark.parametrize(
    "message",
    [
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
        (
            f'roles "r" is forbidden: {USER} is attempting to grant RBAC permissions '
            'not currently held: cannot get resource "x" in API group ""'
        ),
        "no",
    ],
)
def test_another_no_lacks_no_right(message):
    assert refusal(message) is None


# --- What is left of the errors of a server that isn't trusted, and how long its lines may be -----


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Unauthorized), (403, Forbidden), (404, NotFound), (410, Gone)]
)
def test_the_status_decides_the_class_and_the_words_are_ours(status: int, kind: type) -> None:
    error = from_foreign_answer(status, {})
    assert type(error) is kind
    assert f"({status})" in error.message


def test_a_redirect_is_named() -> None:
    assert "isn't followed" in from_foreign_answer(302, {"Location": "http://evil"}).message


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_lines_up_to_the_limit_pass_however_they_are_cut() -> None:
    found = [line async for line in lines(sent(b"aa", b"a\nbbb\n" * 100, b"cc\n"), 4)]
    assert found == [b"aaa", *[b"bbb", b"a"] * 99, b"bbb", b"cc"]


async def test_a_longer_line_is_not_held() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 10

    with pytest.raises(AnswerTooLarge):
        _ = [line async for line in lines(endless(), 100)]
    assert taken <= 12


def test_brackets_in_texts_are_no_containers() -> None:
    assert containers(b'{"a": "' + b"[" * 200_000 + b'"}') == 1
    assert containers(b"[" * 200_000 + b"]" * 200_000) == 200_000


# --- What is nested too deeply is cut off where any parser still reads the rest -------------------


def nested(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * levels + '"]} \\" end"' + closing * levels


def an_object(deep: str) -> bytes:
    metadata = '{"name": "x", "resourceVersion": "1"}'
    return f'{{"metadata": {metadata}, "spec": {deep}, "after": [1, {{}}]}}'.encode()


@given(JSON)
def test_everything_else_is_read_as_it_is(value: object) -> None:
    raw = json.dumps(value).encode()
    assert flattened(raw) is raw
    assert read(raw) == value


@pytest.mark.parametrize("levels", [MOST, 1000, 10_000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")])
def test_what_is_too_deep_is_cut_off_and_said(levels: int, opening: str, closing: str) -> None:
    found = read(an_object(nested(levels, opening, closing)))
    assert found["metadata"] == {"name": "x", "resourceVersion": "1", NOT_WHOLE: TOO_DEEP}
    assert found["after"] == [1, {}]
    json.dumps(found)  # what is left is no burden to anybody


TRICKY = st.text('[]{}"\\a', max_size=6)
NESTED = st.recursive(TRICKY, lambda inner: st.lists(inner) | st.dictionaries(TRICKY, inner))


def cut(value: object, most: int) -> object:
    if not isinstance(value, dict | list):
        return value
    if most == 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: cut(inner, most - 1) for key, inner in value.items()}
    return [cut(inner, most - 1) for inner in value]


@given(NESTED, st.integers(1, 8), st.integers(1, 200))
def test_exactly_what_is_too_deep_is_cut_off(value: object, most: int, times: int) -> None:
    whole = [value] * times
    raw = json.dumps(whole, separators=(",", ":")).encode()
    kept = cut(whole, most)
    flat = flattened(raw, most)
    assert json.loads(flat) == kept
    assert (flat is raw) == (kept == whole)


def test_a_list_and_a_watch_show_the_others_beside_it() -> None:
    deep, good = an_object(nested(9_000)), an_object('"good"')
    head = b'{"kind": "XList", "metadata": {"resourceVersion": "5"}, "items": ['
    page = decode_page(head + deep + b"," + good + b"]}")
    assert [item["spec"] == "good" for item in page.items] == [False, True]
    assert next(iter(page.items))["metadata"][NOT_WHOLE]
    event = decode_event(b'{"type": "ADDED", "object": ' + deep + b"}")
    assert event.object["metadata"][NOT_WHOLE]


DENSE = {
    "lists": '{"a": [' + ",".join(["[]"] * 460_000) + "]}",
    "maps": '{"a": [' + ",".join(['{"a":{}}'] * 155_000) + "]}",
    "lists in lists": '{"a": [' + ",".join(["[" * 200 + "]" * 200] * 3_400) + "]}",
    "and deep": '{"a": ' + nested(9_000) + ', "b": [' + ",".join(["[]"] * 460_000) + "]}",
    "fields": "{" + ",".join(f'"k{n}":{{}}' for n in range(110_000)) + "}",
}


@pytest.mark.parametrize("dense", DENSE)
def test_what_has_too_many_maps_and_lists_is_left_out_and_said(dense: str) -> None:
    found = read(an_object(DENSE[dense]))
    assert found == {
        "metadata": {"name": "x", "resourceVersion": "1", NOT_WHOLE: TOO_MANY},
        "spec": TOO_MANY,
        "after": [1, {}],
    }


LARGE = DENSE | {"braces in texts": json.dumps({f"k{n}": "{{ a }}" for n in range(60_000)})}


@pytest.mark.parametrize("large", LARGE)
def test_an_object_as_large_as_etcd_takes_is_read_in_one_short_step(large: str) -> None:
    raw = an_object(LARGE[large])
    assert_quick(lambda: read(raw), STEP_SECONDS)
    page = b'{"kind": "XList", "metadata": {"resourceVersion": "5"}, "items": [' + raw + b"]}"
    assert_quick(lambda: list(decode_page(page, lone=True).items), 2 * STEP_SECONDS)


def test_numbers_of_which_each_takes_msgspec_long_dont_take_seconds() -> None:
    raw = an_object("[" + ",".join(["1e+308"] * 190_000) + "]")
    assert_quick(lambda: read(raw), 4 * STEP_SECONDS)


def test_brackets_in_texts_are_no_maps() -> None:
    raw = an_object(json.dumps({"text": "[{" * OBJECT_CONTAINERS}))
    found = read(raw)
    assert found == json.loads(raw)


def test_of_metadata_the_small_fields_are_read() -> None:
    fields = ",".join(f'{{"f:{n}":{{}}}}' for n in range(60_000))
    metadata = f'{{"managedFields": [{fields}], "name": "x", "resourceVersion": "1"}}'
    found = read(f'{{"metadata": {metadata}, "spec": {{"a": "b"}}}}'.encode())
    assert found["metadata"] == {
        "name": "x",
        "resourceVersion": "1",
        "managedFields": TOO_MANY,
        NOT_WHOLE: TOO_MANY,
    }
    assert found["spec"] == {"a": "b"}


# --- Paths of objects and collections -------------------------------------------------------------


def test_a_name_is_one_segment_of_the_path() -> None:
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert JOBS.path("ns", "a", "status") == "/apis/batch/v1/namespaces/ns/jobs/a/status"
    assert JOBS.path("ns", "../a?b").endswith("/jobs/..%2Fa%3Fb")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_to_another_resource_is_not_found(name: str) -> None:
    """The API server resolves these segments: a forged name of a Job read the namespace."""
    with pytest.raises(NotFound):
        JOBS.path("ns", name)
