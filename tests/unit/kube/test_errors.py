"""From an HTTP answer to an error: what the API server, webhooks and proxies say, and mean."""

from typing import Any

import pytest

from copyrator.kube import errors
from copyrator.kube.client.answers import dropped_fields, from_answer
from copyrator.kube.client.transport import redact


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


def test_a_long_message_is_cut_to_fit_a_condition() -> None:
    error = from_answer(422, status("Invalid", "x" * 5000))
    assert len(error.message) == errors.MESSAGE_LIMIT
    assert error.message.endswith("…")


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
