"""What holds for all tests: which worker runs them, how many examples, and what SIGINT does."""

import gc
import os
import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, settings
from tests import idle, leftovers
from tests.long import LONG
from tests.spread import FOLDERS, Parts, part_of

# 30 examples in `make test`, 2,000 in `make test-long`; few and always the same in `make mutate`,
# where no failure is shrunk: that it fails is all that counts, and shrinking takes up to minutes.
# Deadlines measure the machine; a hang is found by pytest's time limit.
settings.register_profile("copyrator", max_examples=2000 if LONG else 30, deadline=None)
settings.register_profile(
    "mutation",
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("copyrator")


gc.disable()  # until all tests are collected: none of what that makes is garbage

HERE = Path(__file__).parent
SLOWEST = (
    "e2e/guard/test_others.py",
    "e2e/test_demo.py",
    "e2e/engine/test_restarts.py",
    "e2e/engine/test_life.py",
    "e2e/bundles/test_notifications.py",
    "e2e/bundles/features/attest/test_attest.py",
    "e2e/test_chart.py",
    "e2e/bundles/features/approval/test_guarded_life.py",
    "e2e/bundles/features/cluster/test_target_cluster.py",
    "e2e/upgrade/test_moving.py",
    "e2e/bundles/test_other_controllers.py",
    "e2e/test_readme.py",
    "e2e/bundles/features/approval/test_guarded.py",
    "e2e/clouds/test_clouds.py",
    "e2e/bundles/features/approval/test_ways_around.py",
    "e2e/standin/test_writes.py",
    "e2e/bundles/test_examples.py",
    "e2e/standin/test_recorded.py",
    "e2e/test_operator_process.py",
    "e2e/bundles/features/approval/test_guarded_crashes.py",
    "e2e/cli/test_bundle_commands.py",
    "e2e/cli/test_rule_commands.py",
    "e2e/standin/test_plan_scripts.py",
    "e2e/bundles/features/drift/test_drift.py",
    "e2e/copies/test_remote_sources.py",
    "e2e/faults/test_faults.py",
    "e2e/test_localcluster.py",
    "e2e/bundles/features/approval/test_approval.py",
    "e2e/test_chart_rights.py",
    "component/bundles/features/approval/test_plan_script.py",
    "component/test_imports.py",
    "component/bundles/features/approval/test_plan_deploy_script.py",
    "component/copies/test_remote_sources.py",
    "component/notify/test_notifier.py",
    "component/bundles/features/approval/promises/test_bound_plans.py",
    "component/promises/test_attempts.py",
    "component/copies/test_rollouts.py",
    "component/bundles/test_failed_polls.py",
    "component/bundles/features/rollback/test_rollback.py",
    "component/bundles/features/login/test_login.py",
    "component/bundles/features/attest/test_attest.py",
    "component/oci/test_statements.py",
    "component/bundles/features/drift/test_plan_purposes.py",
    "component/promises/notify/test_notifications.py",
    "component/bundles/features/approval/test_approval.py",
)
"""What takes longest of each part: of e2e in processor time, of component in time, side by side."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of tests/spread.py, and the order of tests."""
    about = "workers for tests/e2e, tests/component and tests/unit: 6,7,1; use with -n auto"
    parser.addoption("--parts", type=_sizes, help=about)
    about = "run files, and tests within a file, in the random order of this seed"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=about)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say the seed, which repeats the order."""
    seed = config.getoption("shuffle")
    return None if seed is None else f"random order: --shuffle {seed}"


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(map(int, text.split(",")))
    if len(sizes) != len(FOLDERS) or min(sizes) < 1:
        raise ValueError(text)
    return sizes


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """As many as the parts have together."""
    return sum(config.getoption("parts") or ()) or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Parts | None:
    """Workers of three kinds, if they are asked for."""
    return Parts(config, log) if config.getoption("parts") else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only what this worker is to run."""
    return _is_anothers(collection_path, config) or None


def _is_anothers(path: Path, config: pytest.Config) -> bool:
    """Whether tests of a path are for workers of another kind."""
    given: dict[str, Any] = getattr(config, "workerinput", {})
    parts = config.getoption("parts")
    if not given or not parts or HERE not in path.parents:
        return False
    folder = path.relative_to(HERE).parts[0]
    return FOLDERS[part_of(given["workerid"], parts)] != (folder if folder in FOLDERS else "unit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark promises, and begin with what takes longest: no worker is alone with it at the end.

    Or in random order, the same in all workers.
    """
    for item in items:
        if "promises" in item.path.relative_to(HERE).parts:
            item.add_marker(pytest.mark.promise)
    # A file that is named on the command line is collected all the same.
    items[:] = [item for item in items if not _is_anothers(item.path, config)]
    seed = config.getoption("shuffle")
    if seed is not None:
        chance = Random(seed)
        of_files = {path: chance.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (of_files[item.path], chance.random()))
        return
    files = {item.path: item.path.relative_to(HERE).as_posix() for item in items}

    def rank(item: pytest.Item) -> int:
        file = files[item.path]
        return SLOWEST.index(file) if file in SLOWEST else len(SLOWEST)

    items.sort(key=rank)


def pytest_configure(config: pytest.Config) -> None:
    """Let nothing that has just woken up interrupt others: it only costs them their caches.

    Tests of e2e take longest and mostly wait: what they can use of the processors is theirs, and
    the others take the rest.
    """
    for plugin in (leftovers, idle):
        config.pluginmanager.register(plugin)
    with suppress(OSError):  # a sandbox may not know it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    given: dict[str, Any] = getattr(config, "workerinput", {})
    parts = config.getoption("parts")
    if given and parts and FOLDERS[part_of(given["workerid"], parts)] != "e2e":
        os.nice(5)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but never walk over what thousands of tests consist of."""
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown() -> None:
    """Trace no memory after a test that failed while it did: all others would be slow."""
    tracemalloc.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly that the pages weren't tested, where there is no browser."""
    reasons = [str(one.longrepr[2]) for one in terminalreporter.stats.get("skipped", [])]
    if missing := [reason for reason in reasons if "No browser:" in reason]:
        terminalreporter.section(f"{len(missing)} SKIPPED", sep="!", red=True, bold=True)
        terminalreporter.write_line(missing[0].removeprefix("Skipped: "), red=True)


@pytest.fixture(scope="session", autouse=True)
def sigint_interrupts() -> Iterator[None]:
    """SIGINT does what it does at a terminal, also where the tests were started with it ignored.

    A shell without job control ignores it for what it starts in the background (``nohup make test
    &``), and processes inherit that: those that a test interrupts would go on.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
