"""Records what the operator asks the fake API server of a component test, with ``--oracle``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.oracle.traces import Request


class Recorder:
    """A middleware that notes requests and answers, and changes neither; off without --oracle."""

    def __init__(self, test: pytest.FixtureRequest) -> None:
        self._folder: Path | None = test.config.getoption("oracle")
        self._test = test.node.nodeid
        self._requests: list[Request] = []

    @property
    def middlewares(self) -> list[Any]:
        return [] if self._folder is None else [self._record]

    @web.middleware
    async def _record(self, request: web.Request, handler: Any) -> web.StreamResponse:
        raw = await request.read()
        noted = {
            "verb": request.method,
            "path": request.path,
            "query": dict(request.query),
            "body": _parsed(raw),
            "code": 0,
        }
        self._requests.append(noted)
        answer: web.StreamResponse = await handler(request)
        noted["code"] = answer.status
        return answer

    def save(self) -> None:
        """Add the test to this process's file of the recording."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"{os.getpid()}.jsonl").open("a") as file:
                file.write(json.dumps([self._test, self._requests]) + "\n")


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")
