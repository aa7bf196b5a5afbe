"""The command line: `python -m localcluster up|down|status|env|build|push|sign|…`."""

import hashlib
import shlex
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import click

from localcluster import bundle, signing
from localcluster.build import Programs
from localcluster.cluster import Cluster, discard
from localcluster.errors import LocalClusterError
from localcluster.paths import state_root
from localcluster.pins import CLUSTER_PROGRAMS


class _Group(click.Group):
    """Turns our errors into one message and exit code 1, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except LocalClusterError as error:
            raise click.ClickException(str(error)) from error


def _state_dir(context: click.Context, _parameter: click.Parameter, chosen: Path | None) -> Path:
    return chosen or state_root() / str(context.params["name"])


def _which(command: Any) -> Any:
    """Adds the options that say which cluster is meant."""
    name = click.option("--name", default="default", is_eager=True, help="The cluster's name.")
    state = click.option(
        "--state",
        "state_dir",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_state_dir,
        help="The directory with everything of the cluster, in place of one made from --name.",
    )
    return name(state(command))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A real Kubernetes control plane of local processes, without root or containers."""
    # The default action of SIGTERM would leave what was started half way.
    signal.signal(signal.SIGTERM, _exit_on_signal)


@main.command()
@_which
@click.option("--node/--no-node", default=True, help="Run pods as local processes.")
def up(name: str, state_dir: Path, node: bool) -> None:
    """Start a cluster, or its stopped components; builds its programs the first time."""
    Programs.default().find(CLUSTER_PROGRAMS)  # so that no build is in the time
    started = time.monotonic()
    cluster = Cluster.start(state_dir, process_node=node)
    click.echo(f"Cluster {name} is ready after {time.monotonic() - started:.1f} s.")
    _describe(cluster)
    option = _option(name, state_dir)
    click.echo(f'Use it:  eval "$(hack/run python -m localcluster env{option})"')
    click.echo(f"Stop it: hack/run python -m localcluster down{option}")


@main.command()
@_which
def down(state_dir: Path, **_name: str) -> None:
    """Stop a cluster and remove its data."""
    stopped = discard(state_dir)
    click.echo(f"{'Stopped the' if stopped else 'No'} cluster in {state_dir}.")


@main.command()
@_which
def status(state_dir: Path, **_name: str) -> None:
    """Show which components run; exit code 1 if one doesn't."""
    cluster = Cluster.attach(state_dir)
    found = cluster.status()
    click.echo(f"{state_dir}")
    for component, runs in found.items():
        pid = cluster.supervisor.plan.state.processes[component].pid if runs else "-"
        click.echo(f"  {component:<24} {'running' if runs else 'DOWN':<8} pid {pid}")
    _describe(cluster)
    sys.exit(0 if all(found.values()) else 1)


@main.command()
@_which
def env(state_dir: Path, **_name: str) -> None:
    """Print shell commands that point kubectl and helm at the cluster."""
    cluster = Cluster.attach(state_dir)
    variables = {**cluster.environment(), "COPYRATOR_REGISTRY": cluster.registry}
    for variable, value in variables.items():
        click.echo(f"export {variable}={shlex.quote(value)}")


@main.command()
@click.argument("programs", nargs=-1)
def build(programs: tuple[str, ...]) -> None:
    """Build programs (default: those of a cluster) and print their paths; also kubelet."""
    for program, path in Programs.default().find(programs or CLUSTER_PROGRAMS).items():
        click.echo(f"{program}\t{path}")


@main.command()
@click.argument("chart", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("reference", metavar="HOST/REPO:TAG")
def push(chart: Path, reference: str) -> None:
    """Push a chart's directory as a bundle, as werf does; print its digest."""
    try:
        click.echo(bundle.push(chart, *_parts(reference)))
    except (bundle.PushError, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("reference", metavar="HOST/REPO:TAG")
def sign(reference: str) -> None:
    """Sign what a tag names, as cosign does, with a key of the user's clusters."""
    registry, repo, tag = _parts(reference)
    manifest = bundle.Target(registry, repo).manifest(tag)
    if not manifest:
        msg = f"{reference} doesn't exist"
        raise click.ClickException(msg)
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    signing.sign(signing.own_key(), registry, repo, digest)


@main.command()
def key() -> None:
    """Print the public part of that key, as cosign.pub has it."""
    click.echo(signing.public_key(signing.own_key()), nl=False)


@main.command()
@click.argument("name")
@click.option("--days", default=90, help="Until it ends.")
def certificate(name: str, days: int) -> None:
    """Print a self-signed certificate."""
    now = datetime.now(UTC)
    begins, ends = now - timedelta(days=1), now + timedelta(days=days)
    click.echo(signing.self_signed(name, begins=begins, ends=ends), nl=False)


def _parts(reference: str) -> tuple[str, str, str]:
    """Registry, repository and tag."""
    registry, _, path = reference.partition("/")
    repo, _, tag = path.rpartition(":")
    if not (registry and repo and tag):
        msg = f"{reference!r} is not HOST/REPO:TAG"
        raise click.UsageError(msg)
    return registry, repo, tag


def _describe(cluster: Cluster) -> None:
    click.echo(f"  kubeconfig  {cluster.admin_kubeconfig}")
    click.echo(f"  API server  {cluster.server}")
    if cluster.supervisor.plan.state.registry:
        click.echo(f"  registry    {cluster.registry} (plain HTTP)")
    click.echo(f"  logs        {cluster.layout.logs}")


def _option(name: str, state_dir: Path) -> str:
    if state_dir != state_root() / name:
        return f" --state {shlex.quote(str(state_dir))}"
    return "" if name == "default" else f" --name {shlex.quote(name)}"


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main(prog_name="python -m localcluster")
