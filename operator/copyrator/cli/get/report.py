"""`copyrator report`: all rules and Bundles in one HTML file, for a ticket or an audit."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import find_installation, operator_namespace_option, username
from copyrator.cli.core.output import prose


@click.command()
@click.option(
    "--html",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File to write; - writes to stdout.",
)
@cluster_options()
@operator_namespace_option
def report(target: Target, home: str | None, file: Path) -> None:
    """Write the state of all rules and Bundles to one HTML file.

    The file needs no other file and runs no code. It has what you may list, in all namespaces or
    (-n) in one, and no values of Secrets.
    """
    text = run(_report(target, home))
    if str(file) == "-":
        click.echo(text)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise Fault(f"can't write {file} ({error.strerror}); choose another --html") from None
    prose([f"{file} written."], err=True)


async def _report(target: Target, home: str | None) -> str:
    from copyrator.cli.ui.pages import Pages  # noqa: PLC0415 - not for --help
    from copyrator.cli.view.live import Live  # noqa: PLC0415
    from copyrator.cli.view.overview import overview  # noqa: PLC0415

    async with target.connect() as client:
        installation = await find_installation(client, home)
        pages = Pages(cluster=client.connection.endpoint.host, user=await username(client))
        async with Live(client, target.namespace_option, target.namespace) as live:
            seen, now = live.now, datetime.now(UTC)
            return pages.report(seen, overview(seen, now), installation, now)
