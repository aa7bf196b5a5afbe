"""``python -m demo``: set up, walk through both jobs, tidy up. A step that fails is exit code 1.

``KEEP=1`` leaves the cluster and the operator running and says how to play on. ``CLUSTERS=2``
starts a second cluster, and shows what the two have of each other.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from demo import (
    bundles,
    certificates,
    clusters,
    composed,
    ending,
    pictures,
    rollout,
    rules,
    setting_up,
)
from demo.screen import Screen
from demo.stage import Stage
from demo.steps import walk
from demo.waiting import StepFailed
from localcluster import Cluster, LocalClusterError
from localcluster.build import Programs
from localcluster.cluster import discard
from localcluster.paths import state_root
from localcluster.pins import CLUSTER_PROGRAMS
from localcluster.state import Layout

CHAPTERS = (
    setting_up.CHAPTER,
    rules.CHAPTER,
    composed.CHAPTER,
    certificates.CHAPTER,
    rollout.CHAPTER,
    bundles.CHAPTER,
    clusters.CHAPTER,
    ending.CHAPTER,
)


def main() -> int:
    """Run the demo and return its exit code."""
    options = _options()
    screen = Screen()
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        _prepare(screen)
        began = time.monotonic()
        with _world(options, screen) as stage:
            chapters = [one for one in CHAPTERS if stage.staging or one is not clusters.CHAPTER]
            steps = walk(stage, screen, chapters)
            screen.done(f"All {steps} steps completed in {time.monotonic() - began:.0f} s.")
            if options.pictures:
                pictures.take(stage, options.pictures)
            if options.keep:
                ending.play_on(stage, screen, options.name)
    except (StepFailed, LocalClusterError) as failure:
        screen.fault(str(failure))
        return 1
    except KeyboardInterrupt:
        screen.fault("Interrupted; everything that the demo started is stopped.")
        return 130
    return 0


def _prepare(screen: Screen) -> None:
    """Print the title, and build the control plane's programs the first time."""
    screen.title(
        "Copyrator: copies and Bundles on a real control plane",
        "Everything is real except the node: without a container runtime, pods run as",
        "local processes. So does the operator, with the permissions that the chart grants.",
    )
    Programs.default().find(CLUSTER_PROGRAMS)


@contextmanager
def _world(options: argparse.Namespace, screen: Screen) -> Iterator[Stage]:
    """Start control planes of its own; stop all again unless all went well and it is to be kept.

    Raises:
        LocalClusterError: one can't be started, or a demo of that name exists already.
    """
    names = [options.name, f"{options.name}-staging"][: options.clusters]
    directories = [state_root() / name for name in names]
    if any(Layout(one).state_file.exists() for one in directories):
        problem = f"A demo named {options.name!r} is already running, or was kept with KEEP=1."
        raise LocalClusterError(problem, ending.stop_command(names))
    stages: list[Stage] = []
    kept = False
    try:
        with screen.started("etcd, kube-apiserver, controllers, registry and a node are up"):
            stages.append(Stage(Cluster.start(directories[0])))
        if len(directories) > 1:
            with screen.started("A second cluster, staging, is up"):
                stages.append(Stage(Cluster.start(directories[1], registry=False)))
            stages[0].use(stages[1])
        yield stages[0]
        kept = options.keep
    except StepFailed:
        for stage in stages:
            if stage.operator is not None:
                screen.note("The end of the operator's log:")
                screen.plain(stage.operator.tail())
        raise
    finally:
        if not kept:
            _tidy_up(stages, directories)


def _tidy_up(stages: list[Stage], directories: list[Path]) -> None:
    # A second Ctrl-C must not leave half of it running.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for stage in stages:
        if stage.operator is not None:
            stage.operator.stop()
    for directory in directories:
        discard(directory)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--name", default="demo", help="the cluster's name (default: demo)")
    parser.add_argument(
        "--pictures",
        type=Path,
        metavar="DIR",
        help="save the output of commands as pictures",
    )
    parser.add_argument(
        "--clusters",
        type=int,
        choices=(1, 2),
        default=os.environ.get("CLUSTERS") or 1,
        help="the same as CLUSTERS (default: 1)",
    )
    kept = os.environ.get("KEEP", "") not in ("", "0")
    parser.add_argument("--keep", action="store_true", default=kept, help="the same as KEEP=1")
    return parser.parse_args()


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
