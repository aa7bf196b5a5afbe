"""The faults between an operator and the API server, by name: for the tests and the benchmark."""

from tests.e2e.faults.proxy import (
    Chosen,
    Fault,
    answers,
    closes_at_once,
    cuts,
    delays,
    disorders,
    everything,
    fails_within,
    goes_silent,
    only,
    pages_of_one,
    silent,
    truncates,
)

Faults = list[tuple[Fault, Chosen]]

WRITES = only("create", "update", "patch", "delete")
READS = only("get", "list", "watch")
WATCHES = only("watch")

FAULTS: dict[str, Faults] = {
    "cut in mid-stream and mid-body": [(cuts, everything)],
    "delayed": [(delays(3.0), everything)],
    "429 with Retry-After": [(answers(429, "TooManyRequests", retry_after=2), everything)],
    "500 and 503": [
        (answers(500, "InternalError"), READS),
        (answers(503, "ServiceUnavailable", retry_after=1), WRITES),
    ],
    "401": [(answers(401, "Unauthorized"), everything)],
    "403 on secrets and on rules": [
        (answers(403, "Forbidden"), only(of=("secrets",))),
        (answers(403, "Forbidden"), only("list", "watch", of=("copyrators",))),
    ],
    "410 on watches and on page 2": [
        (fails_within(410, "Expired"), WATCHES),
        (answers(410, "Expired"), only("list", page=2)),
        (pages_of_one, only("list")),
    ],
    "watches that close at once": [(closes_at_once, WATCHES)],
    "silent watches": [(silent, WATCHES)],
    "watches that go silent while they stand": [(goes_silent, WATCHES)],
    "500 within watches": [(fails_within(500, "InternalError"), WATCHES)],
    "duplicated and re-ordered events": [(disorders, WATCHES)],
    "truncated JSON": [(truncates, everything)],
}
