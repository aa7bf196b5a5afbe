"""The picture of notifications in the docs: what a test with real receivers shows them to get."""

import html
import os
import re

from playwright.async_api import BrowserContext
from tests.e2e.bundles.receivers import COLOURS, documented

from demo.chart import ROOT

STYLE = """
body { font: 15px/1.45 sans-serif; margin: 0; padding: 8px 24px 24px; color: #1d1c1d }
h2 { font-size: 15px; margin: 20px 0 8px; color: #616061; font-weight: normal }
.message { border-left: 4px solid var(--colour); padding: 2px 0 2px 12px; margin: 10px 0 }
.plain b { font-weight: normal }
.mail { border: 1px solid #ccc; border-radius: 6px; padding: 12px 16px }
b, p { display: block; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere }
"""


async def test_the_picture_of_the_docs(context: BrowserContext) -> None:
    """Written into docs/images with COPYRATOR_PICTURES=1; else only drawn."""
    page = await context.new_page()
    await page.set_viewport_size({"width": 1000, "height": 400})
    await page.set_content(drawn())
    picture = await page.screenshot(full_page=True)
    assert picture.startswith(b"\x89PNG")
    assert await page.locator(".message").count() == len(COLOURS) + 1
    if os.environ.get("COPYRATOR_PICTURES"):
        (ROOT / "docs" / "images" / "notifications.png").write_bytes(picture)


def drawn() -> str:
    """A page with the messages: all in Slack, one of them in each of the other services."""

    def draw(message: str, kind: str, colour: str = "transparent") -> str:
        title, text = html.escape(message).split("\n", 1)
        text = re.sub(r"(https://\S+)", r'<a href="\1">\1</a>', text)
        return f'<div class="{kind}" style="--colour: {colour}"><b>{title}</b><p>{text}</p></div>'

    first, *_ = messages = documented()
    slack = zip(messages, COLOURS, strict=True)
    parts = ["<h2>Slack</h2>", *(draw(one, "message", colour) for one, colour in slack)]
    parts += ["<h2>Mattermost</h2>", draw(first, "message plain")]
    parts += ["<h2>Mail</h2>", draw(first, "mail")]
    return f"<!doctype html><style>{STYLE}</style>{''.join(parts)}"
