"""One entry's queue."""

import asyncio

from tests.replacing import replace
from tests.unit.notify.test_marks import CHAT, SHOP, failed

from copyrator.notify.lane import Lane, NotifyTiming
from copyrator.notify.sending import SendResult


async def test_what_is_found_again_before_its_mark_is_set_is_told_once():
    """As when the ConfigMap changes meanwhile, and all objects are looked at."""
    sent, told = [], asyncio.Event()

    async def send(_entry, transitions, _brief):
        sent.append([one.key for one in transitions])
        return SendResult()

    async def mark(_entry, transitions):
        if len(sent) == 1:
            lane.put(replace(transitions[0]))
            lane.put(failed("2", subject=replace(SHOP, uid="uid-2")))
        elif len(sent) == 2:
            lane.put(failed("3", subject=replace(SHOP, uid="uid-2")))
        else:
            told.set()

    lane = Lane(
        replace(CHAT, min_interval=0.0),
        send=send,
        told=mark,
        on_failed=lambda *_: None,
        on_dropped=lambda *_: None,
        timing=NotifyTiming(settle=0),
    )
    lane.put(failed("1"))
    async with asyncio.timeout(30):
        await told.wait()
    await lane.stop()

    assert sent == [["1"], ["2"], ["3"]]
