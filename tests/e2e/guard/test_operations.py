"""The commands of docs/operations.md, run as they stand there, also while the policy errs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from tests.e2e.guard.conftest import Guarded, GuardedJob, config, installed
from tests.e2e.operator_process import until
from tests.e2e.person import Person

from demo.chart import ROOT
from localcluster import Cluster
from localcluster.errors import CommandFailedError

SECTION = "## The guard of approved deploys\n"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
LABEL = "operator.werf.dev/guard"


def commands(heading: str) -> list[list[str]]:
    """The kubectl commands under a heading of the section, each as its arguments."""
    text = (ROOT / "docs" / "operations.md").read_text().partition(SECTION)[2].partition("\n## ")[0]
    part = text.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split()[1:] for line in lines if line.strip().startswith("kubectl ")]


@pytest.fixture
def guarded(cluster: Cluster) -> Iterator[Guarded]:
    """Its policies are taken away by the test."""
    with installed(cluster) as found:
        yield found


@pytest.fixture
def kubectl(guarded: Guarded) -> Callable[[list[str]], str]:
    """Runs a command of the docs, for this installation's namespace."""

    def run(arguments: list[str]) -> str:
        home = guarded.home
        named = [
            one.replace("copyrator.copyrator.", f"copyrator.{home}.")
            if one != "copyrator"
            else home
            for one in arguments
        ]
        return guarded.cluster.kubectl(*named)

    return run


@pytest.fixture
def job(guarded: Guarded) -> GuardedJob:
    return guarded.job(guarded.team(), "create ::ConfigMap:listed")


def others_write(guarded: Guarded, job: GuardedJob) -> bool:
    """Whether somebody else may write."""
    person = Person(guarded.api, "admin")
    return not job.refused(lambda: person.apply(config("others", job.team), force="true"))


def test_the_emergency_command_works_while_the_policy_refuses_everybody(
    guarded: Guarded, job: GuardedJob, kubectl: Callable[[list[str]], str]
) -> None:
    """As a first draft did: its condition erred for whoever has no extra."""
    policy = guarded.api.get(f"{POLICIES}/{guarded.policy}")
    broken = {
        "name": "errs",
        "expression": f"request.namespace != '{job.team}' || request.userInfo.extra['x'][0] == 'y'",
    }
    policy["spec"]["matchConditions"] = [broken]
    guarded.api.replace(f"{POLICIES}/{guarded.policy}", policy)
    until(lambda: not others_write(guarded, job), "everybody is refused")
    first, *rest = commands("Switch it off in an emergency")
    assert first[:2] == ["delete", "validatingadmissionpolicybinding"]
    kubectl(first)
    until(lambda: others_write(guarded, job), "everybody may write", 10)
    until(lambda: not job.is_guarded(), "the guard is off")
    job.person.apply(config("other", job.team))
    for command in rest:
        until(lambda: _passes(lambda: kubectl(command)), f"{command} passes")  # noqa: B023
    assert not _lists(guarded)


def test_what_removes_it_for_good_leaves_nothing(
    guarded: Guarded, job: GuardedJob, kubectl: Callable[[list[str]], str]
) -> None:
    for command in commands("Remove it for good"):
        until(lambda: _passes(lambda: kubectl(command)), f"{command} passes")  # noqa: B023
    assert not _lists(guarded)
    left = [one["name"] for one in guarded.api.metadata(POLICIES)]
    assert not [name for name in left if f".{guarded.home}.guard" in name]
    until(lambda: not job.is_guarded(), "the guard is off")
    assert others_write(guarded, job)


def _passes(act: Callable[[], object]) -> bool:
    """A binding that was deleted is in force for a moment."""
    try:
        act()
    except CommandFailedError as error:
        assert "ValidatingAdmissionPolicy" in str(error)  # noqa: PT017 - it is in force yet
        return False
    return True


def _lists(guarded: Guarded) -> list[str]:
    path = f"/api/v1/namespaces/{guarded.home}/configmaps"
    found = guarded.api.get(path, labelSelector=LABEL)["items"]
    return [one["metadata"]["name"] for one in found]
