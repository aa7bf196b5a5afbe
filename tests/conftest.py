"""What holds for all tests: examples of the property tests, and what SIGINT does."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.long import LONG

# 200 examples in `make test`, 2,000 in `make test-long`.
# Deadlines measure the machine; a hang is found by pytest's time limit.
settings.register_profile("copyrator", max_examples=2000 if LONG else 200, deadline=None)
settings.load_profile("copyrator")


@pytest.fixture(scope="session", autouse=True)
def sigint_interrupts() -> Iterator[None]:
    """SIGINT does what it does at a terminal, also where the tests were started with it ignored.

    A shell without job control ignores it for what it starts in the background (``nohup make test
    &``), and processes inherit that: those that a test interrupts would go on.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
