"""Every page about hostile objects, found by the links: it is well-formed and has no values."""

from base64 import b64encode

import aiohttp
import pytest
from tests.component.cli.hostile_cluster import LONGEST, PLANNED, SENTINEL, HostileCluster, fill
from tests.component.cli.page_walk import PageReader, Walk, serving_pages
from tests.component.copies.conftest import serving
from tests.long import LONG

from copyrator.cli.core.cluster import Target
from copyrator.cli.ui import command

MOST = 200 if LONG else 12
"""Pages of one shape."""
SECRET = (SENTINEL, b64encode(SENTINEL.encode()).decode().rstrip("="))
FIRST = ("/", *(f"/bundles/home/{name}" for name in (*PLANNED, LONGEST)))
KNOWN = {
    *("/", "/matrix", "/rules/*/*", "/bundles/*/*", "/copies/*/*/*", "/bundles/*/*/log"),
    *(f"/do/{verb}/bundles/*/*" for verb in ("rollback", "unpin", "skip", "unskip", "unhold")),
    *("/do/hold/bundles/*/*", "/do/approve/bundles/*/*", "/do/suspend/rules/*/*"),
}


@pytest.fixture
async def hostile():
    async with serving(HostileCluster()) as cluster:
        fill(cluster)
        yield cluster


async def test_every_page_is_well_formed_and_shows_no_value(hostile, tmp_path):
    walk, faults = Walk(MOST, FIRST), []
    jar = aiohttp.CookieJar(unsafe=True)  # for an address instead of a name
    async with (
        serving_pages(hostile.url, tmp_path) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", cookie_jar=jar) as session,
    ):
        async with session.get(server.url) as answer:
            assert answer.status == 200
        for path in walk:
            async with session.get(path) as answer:
                text = await answer.text()
                if answer.status != 200:
                    faults.append(f"{path}: {answer.status} {text[-200:]}")
            reader = PageReader(path)
            reader.feed(text)
            faults += reader.finish()
            faults += [f"{path}: has the value of a Secret" for one in SECRET if one in text]
            walk.add(reader.links)
        text = await command._report(Target(kubeconfig=tmp_path / "kubeconfig"), None)
    for one in SECRET:
        assert one not in text
    reader = PageReader("the report")
    reader.feed(text.replace("<style>", "", 1).replace("</style>", "", 1))
    faults += [one for one in reader.finish() if "<nav>" not in one]  # it is one page
    assert walk.seen.keys() >= KNOWN
    assert not faults, "\n".join(faults)
