"""Says loudly which tests of the real node were skipped, and fails in CI where none was run.

pytest calls a run in which everything is skipped a success, so a CI on another machine than these
tests need would be green and would have tested nothing.
"""

import os
from collections import Counter

import pytest

_RAN = ("passed", "failed", "error", "xfailed", "xpassed")


def _reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    return config.pluginmanager.get_plugin("terminalreporter")


def is_ci() -> bool:
    """Whether this is a CI: GitHub, GitLab and most others set CI=true."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


def fail_ci_that_ran_nothing(session: pytest.Session) -> None:
    """Change the exit code of a session in which no test was run."""
    reporter = _reporter(session.config)
    if reporter is None or session.config.option.collectonly or not is_ci():
        return
    if not any(reporter.stats.get(word) for word in _RAN):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def say_what_was_skipped(reporter: pytest.TerminalReporter) -> None:
    """Write each reason with the number of tests, and what follows from it."""
    skipped = reporter.stats.get("skipped", [])
    said = (str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    reasons = Counter(" ".join(reason.split()) for reason in said)
    if not reasons:
        return
    ran = sum(len(reporter.stats.get(word, [])) for word in _RAN)
    reporter.section(f"{len(skipped)} SKIPPED, {ran} run", sep="!", red=True, bold=True)
    for reason, times in reasons.most_common():
        reporter.write_line(f"{times} skipped: {reason}", red=True)
    if not ran:
        end = "In CI that is a failure." if is_ci() else "With CI=true that is a failure."
        reporter.write_line(f"NOTHING was tested on a real node. {end}", red=True, bold=True)
