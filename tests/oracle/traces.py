"""Traces: what of a recording is compared, the same in each run.

A test's traces are named lists of lines. An object's has its requests in order, with bodies and
answers; ``writes around`` a Bundle has the order of all writes to it, its Jobs and their Secrets.
Where the order or the number depends on the clock (lists, events, access reviews), the trace is a
set. Times and reads of Jobs are left out; uids, hashes, salts, nonces and ports become numbers in
the order in which they appear in the trace, and so do the names of Jobs in the whole test.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

Request = dict[str, Any]
"""verb, path, query, body and code, the status of the answer: 0 if there was none."""
Traces = dict[str, list[str]]

UNORDERED = "set of "
"""Begins the name of a trace that is a set."""
LONGEST = 500
JOB = re.compile(
    r"\b([a-z0-9][a-z0-9.-]*-(?:deploy|plan|drift|preview|uninstall)-)([0-9a-f]{10})\b"
)
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?")
DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|min|seconds?|minutes?|hours?)\b")
PORT = re.compile(r"\b(127\.0\.0\.1|localhost):(\d+)\b")
REVISION = re.compile(r"\brevision (\d+)")
"""Of a release: the fake werf counts those of all Bundles together."""
NAMES = re.compile(r"(?<=notin )\(([^()]*)\)")
"""Of a selector: their order is that of a Python set."""
HASH = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{10,128}\b"
)
TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Z])(?=.*[a-z])(?:[\w+/-]{32}|[\w+/-]{43}=)", re.ASCII)
"""A keyed hash, or a key, in base64."""
LEFT_OUT = {"resourceVersion", "timeoutSeconds", "allowWatchBookmarks", "limit", "continue"}


class Numbers:
    """Replaces what differs from run to run in texts and bodies of one trace."""

    def __init__(self, jobs: dict[str, str]) -> None:
        self._jobs = jobs
        self._hashes: dict[str, str] = {}
        self._revisions: dict[int, str] = {}

    def body(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {
                self.text(name): self.body(_decoded(key, item), name)
                for name, item in sorted(value.items())
                if name not in LEFT_OUT and not _is_time(item)
            }
        if isinstance(value, list):
            return [self.body(item) for item in value]
        if key == "revision" and isinstance(value, int):
            return self._revision(value)
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        if TOKEN.fullmatch(text):
            return self._hashes.setdefault(text, f"<{len(self._hashes) + 1}>")
        text = JOB.sub(lambda found: self._jobs.get(found[0], f"{found[1]}#?"), text)
        text = REVISION.sub(lambda found: f"revision {self._revision(int(found[1]))}", text)
        text = TIME.sub("<time>", text)
        text = DURATION.sub("<duration>", text)
        text = PORT.sub(r"\1:<port>", text)
        text = NAMES.sub(lambda found: f"({','.join(sorted(found[1].split(',')))})", text)
        text = HASH.sub(self._number, text)
        if len(text) <= LONGEST:
            return text
        return f"{text[:40]}... <sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}>"

    def _revision(self, number: int) -> str:
        return self._revisions.setdefault(number, f"<r{len(self._revisions) + 1}>")

    def _number(self, found: re.Match[str]) -> str:
        text = found[0]
        if text.isdigit() and len(text) < 32:
            return text
        for known, number in self._hashes.items():  # twelve digits stand for a digest
            if known.startswith(text) or text.startswith(known):
                return number
        return self._hashes.setdefault(text, f"<{len(self._hashes) + 1}>")


def _is_time(value: Any) -> bool:
    """Whether it says nothing but times: a second later, a patch has them or not."""
    if isinstance(value, dict):
        return bool(value) and all(map(_is_time, value.values()))
    return isinstance(value, str) and TIME.fullmatch(value) is not None


def _decoded(key: str, value: Any) -> Any:
    """The content of a Secret's data."""
    if key == "data" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            pass
    return value


def traces_of(requests: Iterable[Request]) -> Traces:
    """The traces of one test."""
    requests = list(requests)
    jobs = _numbered_jobs(requests)
    traces: Traces = {}
    numbers: dict[str, Numbers] = {}

    def add(name: str, request: Request, *, body: bool = True) -> None:
        if name.startswith(UNORDERED):
            line = _line(request, Numbers(jobs), body)
            line = re.sub(r"<r?\d+>|#\d+", "<n>", line)
            if line not in traces.setdefault(name, []):
                traces[name] = sorted([*traces[name], line])
            return
        line = _line(request, numbers.setdefault(name, Numbers(jobs)), body)
        trace = traces.setdefault(name, [])
        if not (request["verb"] == "GET" and trace and trace[-1] == line):
            trace.append(line)

    for request in requests:
        if not _reads_job(request):
            add(_name(request, Numbers(jobs)), request)
        if request["verb"] == "GET" or _keeps_job_for_a_time(request):
            continue
        if bundle := _bundle_of(request):
            add(f"writes around {bundle}", request, body=False)
    return traces


def _numbered_jobs(requests: list[Request]) -> dict[str, str]:
    """The names of all Jobs, numbered for each Bundle and purpose."""
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for request in requests:
        for match in JOB.finditer(json.dumps([request["path"], request["query"], request["body"]])):
            if match[0] not in found:
                counts[match[1]] = counts.get(match[1], 0) + 1
                found[match[0]] = f"{match[1]}#{counts[match[1]]}"
    return found


def _reads_job(request: Request) -> bool:
    """Whether a Job is read, as it is where a watch hasn't shown it yet."""
    return request["verb"] == "GET" and "/jobs/" in request["path"]


def _keeps_job_for_a_time(request: Request) -> bool:
    """Whether a Job that ended gets its time to live, beside what else goes on."""
    body = request["body"]
    return isinstance(body, dict) and set(body.get("spec") or ()) == {"ttlSecondsAfterFinished"}


def _line(request: Request, numbers: Numbers, body: bool) -> str:
    query = {k: v for k, v in request["query"].items() if k not in (*LEFT_OUT, "fieldManager")}
    parts = [request["verb"], numbers.text(request["path"])]
    if request["verb"] == "POST":
        parts[1] += f"/{numbers.text(_name_in(request))}"
    if query:
        parts.append(json.dumps(numbers.body(query), sort_keys=True))
    parts.append(f"-> {request['code'] or 'no answer'}")
    if body and request["body"] is not None:
        parts.append(json.dumps(numbers.body(request["body"]), ensure_ascii=False))
    return " ".join(parts)


def _name_in(request: Request) -> str:
    body = request["body"]
    return str((body.get("metadata") or {}).get("name", "")) if isinstance(body, dict) else ""


def _name(request: Request, numbers: Numbers) -> str:
    """Of the trace that a request belongs to."""
    parts = request["path"].strip("/").split("/")
    rest = parts[2 if parts[0] == "api" else 3 :]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural = rest[0] if rest else request["path"]
    if plural == "events" or plural.endswith("reviews"):
        return f"{UNORDERED}{plural}"
    if len(rest) < 2 and request["verb"] == "GET":
        return f"{UNORDERED}lists and watches"
    if plural == "pods":
        plural, rest[1] = "jobs", rest[1].removesuffix("-pod")
    name = _name_in(request) if request["verb"] == "POST" else "".join(rest[1:2])
    if plural == "secrets" and request["verb"] == "DELETE" and not name:
        name = "of " + (_bundle_of(request) or "?")
    return numbers.text(f"{plural} {namespace}/{name}")


def _bundle_of(request: Request) -> str:
    """The Bundle whose object is written, if that can be seen."""
    path, body = request["path"], request["body"]
    namespace = found[1] if (found := re.search(r"/namespaces/([^/]+)/", path)) else ""
    name = ""
    if found := re.search(r"/bundles/([^/]+)", path):
        name = found[1]
    elif found := re.search("operator.werf.dev/bundle=([^,]+)", str(request["query"])):
        name = found[1].rstrip("'}")
    elif isinstance(body, dict) and request["verb"] == "POST":
        labels = (body.get("metadata") or {}).get("labels") or {}
        name = labels.get("operator.werf.dev/bundle", "")
    elif found := JOB.search(path):
        name = found[1].rpartition("-")[0].rpartition("-")[0]
    return f"{namespace}/{name}" if name else ""
