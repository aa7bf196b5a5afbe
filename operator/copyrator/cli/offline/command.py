"""`copyrator validate`: manifests in files."""

# ruff: noqa: PLC0415 - the parsers are imported late: not for --help

from __future__ import annotations

from collections import Counter

import click

from copyrator.api import names
from copyrator.api.text import count
from copyrator.cli.core.faults import hint
from copyrator.cli.core.output import Format, Kind, answer_option, dump, typed


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path())
@click.option(
    "-f",
    "--filename",
    "more",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="File, directory or - (stdin).",
)
@answer_option
def validate(files: tuple[str, ...], more: tuple[str, ...], shape: Format | None) -> None:
    """Validate rules and Bundles in files without a cluster; each problem is shown with its line.

    They are validated against the CRDs and by the operator's own parsers; the ConfigMap of the
    signature policy, too. Other kinds are ignored.
    Exit code: 0 all are valid; 1 at least one isn't.
    """
    import msgspec

    from copyrator.cli.offline.manifests import read_manifests
    from copyrator.cli.offline.validate import check, is_ours, warnings

    if not (files or more):
        raise click.UsageError(f"name a file: {hint('validate', '-f', 'rule.yaml')}")
    manifests = [one for one in read_manifests([*files, *more]) if is_ours(one)]
    found = [finding for manifest in manifests for finding in check(manifest)]
    for manifest in manifests if not found else ():
        for warning in warnings(manifest):
            click.echo(f"Warning: {warning}", err=True)
    if shape is not None:
        dump(typed(Kind.PROBLEM_LIST, {"items": msgspec.to_builtins(found)}), shape)
    else:
        for finding in found:
            click.echo(str(finding))
        if not manifests:
            click.echo("No CopyratorRule or Bundle found.", err=True)
        elif not found:
            kinds = Counter(one.kind for one in manifests)
            policy = ", the signature policy" if kinds["ConfigMap"] else ""
            bundles = count(kinds[names.BUNDLE_KIND], "Bundle")
            click.echo(f"Valid: {count(kinds[names.RULE_KIND], 'rule')}, {bundles}{policy}.")
    if found:
        raise click.exceptions.Exit(1)
