"""How a real browser comes to the page: through the file of `--open`, and once."""

from pathlib import Path

from tests.component.cli.test_ui_server import page as served

from copyrator.cli.ui import command

__all__ = ["served"]


async def test_the_file_of_open_leads_to_a_session_and_leaves_no_token(served, context):
    tab = await context.new_page()
    with command.file_that_opens(served.server.url) as file:
        await tab.goto(file.as_uri())
        await tab.wait_for_url(f"{served.base}/")
    await tab.locator("main").get_by_text("infra/broken").first.wait_for()
    assert not Path(file).exists()
    (cookie,) = await context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    other = await context.browser.new_context()
    second = await other.new_page()
    await second.goto(served.server.url)
    assert "has been opened" in await second.locator("body").inner_text()
