"""`copyrator hold` and `unhold`: what a Bundle runs isn't promoted, or is again."""

from __future__ import annotations

from typing import Any

import click

from copyrator.api.names import ANN_HOLD
from copyrator.api.promotion import MAX_HOLD_TEXT, shown_hold
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.objects import RESOURCES, annotations_of, object_arguments, one
from copyrator.cli.core.output import Format, object_option, prose, reference, show
from copyrator.cli.core.waiting import shown


@click.command()
@object_arguments("bundles")
@cluster_options()
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Reason, in one line; shown in the Bundles that are promoted from it.",
)
@object_option
def hold(target: Target, what: str, name: str, reason: str, shape: Format | None) -> None:
    """Hold a Bundle: the version that it runs isn't promoted until it is unheld.

    Its soak ends, and restarts then. For a test pipeline, an alert, or a person.
    """
    if len(reason) > MAX_HOLD_TEXT or not reason.strip() or not reason.isprintable():
        raise click.UsageError(
            f"--reason must be one line of 1 to {MAX_HOLD_TEXT} characters without control "
            "characters"
        )
    body, _ = run(_annotate(target, what, name, reason))
    done = f"is held: {shown_hold(reason).rstrip('.')}. To end that"
    _print(body, shape, f"{shown(what, body)} {done}: {hint_about('unhold', 'bundle', body)}")


@click.command()
@object_arguments("bundles")
@cluster_options()
@object_option
def unhold(target: Target, what: str, name: str, shape: Format | None) -> None:
    """End the hold of a Bundle: its soak restarts."""
    body, was_held = run(_annotate(target, what, name, None))
    done = "isn't held any more; its soak restarts." if was_held else "isn't held."
    _print(body, shape, f"{shown(what, body)} {done}")


async def _annotate(
    target: Target, what: str, name: str, reason: str | None
) -> tuple[dict[str, Any], bool]:
    """Set or remove the annotation; return the Bundle, and whether it was held before."""
    namespace, name = target.locate(name)
    async with target.connect() as client:
        body = await one(client, what, namespace, name)  # a message that names what there is
        was_held = ANN_HOLD in annotations_of(body)
        patch = {"metadata": {"annotations": {ANN_HOLD: reason}}}
        return await client.patch(RESOURCES[what], namespace, name, patch), was_held


def _print(body: dict[str, Any], shape: Format | None, sentence: str) -> None:
    if shape is None:
        prose([sentence])
    elif shape is Format.NAME:
        click.echo(reference(body))
    else:
        show(body, shape)
