"""How a real browser comes to the page: by its URL, and once."""

from tests.component.cli.test_ui_server import page as served

__all__ = ["served"]


async def test_the_url_leads_to_a_session_once(served, context):
    tab = await context.new_page()
    await tab.goto(served.server.url)
    await tab.wait_for_url(f"{served.base}/")
    await tab.locator("main").get_by_text("infra/broken").first.wait_for()
    (cookie,) = await context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    other = await context.browser.new_context()
    second = await other.new_page()
    await second.goto(served.server.url)
    assert "has been opened" in await second.locator("body").inner_text()
