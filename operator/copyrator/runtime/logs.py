"""Log lines: human-readable on a console, or one JSON object a line; never an object's body.

A reconcile binds its key with `bound`, and every line logged inside has it, also lines of
libraries. kopf is held at INFO: its DEBUG lines print whole bodies, a Secret's included.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import json
import logging
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import TextIO

from copyrator.settings.config import LogFormat, LogLevel

_context: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "log", default=types.MappingProxyType({})
)

_left: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "left", default=types.MappingProxyType({})
)
"""The fields that this task has bound last."""

_NEVER_BELOW_INFO = ("kopf", "aiohttp", "kubernetes", "urllib3", "asyncio")
"""Libraries that print bodies, tokens or too many lines at DEBUG."""

_ERRORS_ONLY = (
    "kopf.activities",
    "kopf._core.engines.activities",
    "kopf._core.reactor.running",
    "aiohttp.access",
    "botocore",
)
"""Loggers whose lines below ERROR repeat our own ones, or have tokens in them."""


_CUT_OFF = re.compile(r"Request attempt #[\d/]+ failed; TCP closed")
"""kopf 1.45's line about a request of a session that it closed itself, at its end or to log in."""


@contextlib.contextmanager
def bound(**fields: str) -> Iterator[None]:
    """Add `fields` (rule, bundle, namespace, name, reconcile) to every line logged inside."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _left.set(_context.get())
        _context.reset(token)


def in_work() -> Mapping[str, str]:
    """The fields bound now, or else those bound last: one step may reset both."""
    return _context.get() or _left.get()


def configure(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Send the process's log lines to `stream` (default stderr) in one format.

    Replaces every handler of the root logger, kopf's among them, so that `copyrator run` and
    `kopf run` write the same lines.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else ConsoleFormatter())
    for each in (add_context, _is_usual, _without_traceback):
        handler.addFilter(each)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    chosen = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(chosen)
    for name in _NEVER_BELOW_INFO:
        logging.getLogger(name).setLevel(max(chosen, logging.INFO))
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # "Handler 'rules' succeeded."
    for name in _ERRORS_ONLY:
        logging.getLogger(name).setLevel(logging.ERROR)
    asyncio_logger = logging.getLogger("asyncio")
    asyncio_logger.propagate = True  # kopf turns this off, which would hide failed tasks
    asyncio_logger.handlers.clear()


def add_context(record: logging.LogRecord) -> bool:
    """A filter: add the bound fields to a record when it is made, in the task that made it."""
    record.fields = _context.get()
    return True


def _is_usual(record: logging.LogRecord) -> bool:
    """Drop kopf's ERROR about a request that it cut off itself."""
    return not (record.name.startswith("kopf") and _CUT_OFF.match(record.getMessage()))


def _without_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of kopf's lines about API server errors: it shows no cause."""
    kind = record.exc_info[0] if record.exc_info else None
    if kind is not None and kind.__module__ == "kopf._cogs.clients.errors":
        record.exc_info = record.exc_text = None
    return True


class ConsoleFormatter(logging.Formatter):
    """`12:00:00 INFO  message  rule=default/main`: for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the record's traceback if there is one."""
        time = datetime.datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        pairs = "".join(f" {key}={value}" for key, value in _fields(record).items())
        line = f"{time} {record.levelname:<7} {record.getMessage()}{' ' if pairs else ''}{pairs}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, the bound fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON; a bound field never hides one of the fixed keys."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            **_fields(record),
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> dict[str, str]:
    fields = dict(getattr(record, "fields", {}))
    reference = getattr(record, "k8s_ref", None)  # kopf's lines about one object
    if isinstance(reference, Mapping):
        fields.setdefault("namespace", str(reference.get("namespace") or ""))
        fields.setdefault("name", str(reference.get("name") or ""))
    return fields
