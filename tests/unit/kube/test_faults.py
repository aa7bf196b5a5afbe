"""What is told of a watch's faults: each once, until it has been well for a while."""

import logging

import pytest

from copyrator.kube.errors import BrokenAnswer
from copyrator.kube.watch.reflector import DEFAULT_TIMING, Faults


def flap(faults: Faults) -> None:
    """A fault that the next try meets again, and then none."""
    for _ in range(2):
        faults.note(BrokenAnswer("half an event"))
    faults.clear()


def test_what_comes_and_goes_within_seconds_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    faults = Faults("the watch", DEFAULT_TIMING, lambda: 0.0)
    flap(faults)
    flap(faults)
    assert caplog.messages == [
        "the watch: half an event",
        "the watch: works again after 0 s",
    ]
    faults.calm()
    flap(faults)
    assert caplog.messages[2:] == caplog.messages[:2], "it had been well for long"
