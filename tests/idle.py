"""A worker of pytest-xdist that waits for its next test for a long time ends, and with it the run.

A busy run once did nothing for 90 minutes: a worker waited for tests that the controller counted as
sent. Why isn't known. Now the test that it would run next is reported as failed, and what each of
its threads does is printed.

While a worker has two tests or more left, it is sent further ones, or told to end: it waits no
longer than an answer takes, but for its first test, which comes when others have collected, too.

No worker takes the place of one that has died. pytest-xdist 3.8 sends the files that it has run
once more, without their tests, and then waits for their end
(https://github.com/pytest-dev/pytest-xdist/issues/1378).
"""

from __future__ import annotations

import faulthandler

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

LIMIT = 900.0
"""Seconds; a new clone's collection on a busy machine takes minutes."""


class Idle:
    """The time limit of a worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def _begin(self) -> None:
        file = self._config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(LIMIT, exit=True, file=file)

    def pytest_collection_finish(self) -> None:
        """Wait for the first test."""
        self._begin()

    def pytest_runtest_logstart(self) -> None:
        """A test has a time limit of its own."""
        faulthandler.cancel_dump_traceback_later()

    def pytest_runtest_logfinish(self) -> None:
        """Wait for the next test."""
        self._begin()

    def pytest_sessionfinish(self) -> None:
        """No further test is waited for."""
        faulthandler.cancel_dump_traceback_later()


def pytest_configure(config: pytest.Config) -> None:
    """Watch a worker; let the run end with the first that dies."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Idle(config))
    elif config.pluginmanager.hasplugin("xdist") and config.option.maxworkerrestart is None:
        config.option.maxworkerrestart = "0"
