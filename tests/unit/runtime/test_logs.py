"""Log lines: both formats, the bound fields, and what must never be written."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from kopf._cogs.clients.errors import APINotFoundError

from copyrator.runtime import logs
from copyrator.settings.config import LogFormat, LogLevel


@pytest.fixture(autouse=True)
def _logging_is_put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(log_format: LogFormat, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(log_format, level, stream)
    return stream


def test_a_json_line_holds_what_it_is_about() -> None:
    stream = lines(LogFormat.JSON)
    with logs.bound(rule="default/main", reconcile="7f3a"), logs.bound(namespace="team-a"):
        logging.getLogger("copyrator.reconcile").info("Wrote %d copies", 3)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "copyrator.reconcile",
        "message": "Wrote 3 copies",
        "rule": "default/main",
        "reconcile": "7f3a",
        "namespace": "team-a",
    }


def test_a_json_line_stays_one_line_with_an_exception() -> None:
    stream = lines(LogFormat.JSON)
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        logging.getLogger("x").exception("It failed")
    (text,) = stream.getvalue().splitlines()
    assert "ValueError: bad\nthing" in json.loads(text)["exception"]


def test_a_console_line_is_short_and_ends_with_the_fields() -> None:
    stream = lines(LogFormat.CONSOLE)
    with logs.bound(bundle="shop/app"):
        logging.getLogger("copyrator").warning("Waiting")
    assert stream.getvalue().endswith("WARNING Waiting  bundle=shop/app\n")


def test_fields_end_with_their_block() -> None:
    stream = lines(LogFormat.CONSOLE)
    with logs.bound(rule="a/b"):
        pass
    logging.getLogger("copyrator").info("Idle")
    assert "rule=" not in stream.getvalue()


@pytest.mark.parametrize("name", ["kopf.objects", "kopf._core.reactor", "aiohttp.client"])
def test_debug_never_reaches_libraries_that_print_bodies(name: str) -> None:
    stream = lines(LogFormat.CONSOLE, LogLevel.DEBUG)
    logging.getLogger(name).debug("{'data': {'password': 'c2VjcmV0'}}")
    logging.getLogger("copyrator").debug("Ours is written")
    assert "c2VjcmV0" not in stream.getvalue()
    assert "Ours is written" in stream.getvalue()


def test_kopf_lines_about_an_object_name_it() -> None:
    stream = lines(LogFormat.JSON)
    reference = {"namespace": "default", "name": "main", "kind": "CopyratorRule"}
    logging.getLogger("kopf.objects").warning("Hm", extra={"k8s_ref": reference})
    line = json.loads(stream.getvalue())
    assert (line["namespace"], line["name"]) == ("default", "main")


def test_requests_that_kopf_itself_cut_off_at_its_end_are_no_news() -> None:
    stream = lines(LogFormat.CONSOLE)
    logger = logging.getLogger("kopf._cogs.clients.scanning")
    logger.error("Request attempt #2/9 failed; TCP closed; will re-authenticate: GET https://a/api")
    assert stream.getvalue() == ""


def test_other_errors_of_kopf_are_never_dropped() -> None:
    stream = lines(LogFormat.CONSOLE)
    for _ in range(2):
        logging.getLogger("kopf").error("Event processing has failed")
    assert len(stream.getvalue().splitlines()) == 2


def test_an_answer_of_the_api_server_needs_no_traceback_of_kopf() -> None:
    stream = lines(LogFormat.CONSOLE)
    answer = APINotFoundError({"message": "no such kind"}, status=404, headers={})
    for error in (answer, KeyError("ours")):
        try:
            raise error
        except Exception:
            logging.getLogger("kopf.x").exception("A watcher has failed")
    assert stream.getvalue().count("Traceback") == 1
    assert "KeyError" in stream.getvalue()


def test_failed_tasks_are_reported_after_kopf_silenced_asyncio() -> None:
    silenced = logging.getLogger("asyncio")
    silenced.propagate = False
    stream = lines(LogFormat.CONSOLE)
    silenced.error("Task exception was never retrieved")
    assert "never retrieved" in stream.getvalue()
