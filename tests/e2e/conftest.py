"""One real control plane for each worker of a test run; each test has its own namespaces.

A worker's files run one after the other, and an operator that a file starts ends with it: two
operators on one cluster would both serve every Bundle.

COPYRATOR_E2E_CLUSTER=<state directory> uses a cluster that runs already and leaves it running
(`python -m localcluster up` says where it is); COPYRATOR_E2E_KEEP=1 leaves the run's own.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import referrers_registry as referrers
from tests.e2e import stalls
from tests.e2e.owned_cluster import owned_cluster, reap
from tests.e2e.vanishing import vanish

from localcluster import Api, Cluster, Requests
from localcluster.api import ApiStatusError
from localcluster.build import Programs
from localcluster.paths import state_root
from localcluster.pins import CLUSTER_PROGRAMS

OURS = ("/apis/flant.com/v1/copyrators", "/apis/operator.werf.dev/v1/bundles")
_PREFIX = "e2e-"
_OPERATORS = "system:serviceaccount:*:copyrator"
"""The users that operators are under the chart's rights."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before any test's time limit runs."""
    here = Path(__file__).parent
    if session.config.option.collectonly:
        return
    if any(here in item.path.parents for item in session.items):
        Programs.default().find(CLUSTER_PROGRAMS)


def skip_before_1_30(api: Api, what: str) -> None:
    """Leave a test out on Kubernetes 1.29, which hasn't got what it is about."""
    if int(api.get("/version")["minor"]) < 30:
        pytest.skip(f"Kubernetes 1.29: {what}")


POLICIES_ARE_BETA = "ValidatingAdmissionPolicy isn't served"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running control plane with registry and process node."""
    if given := os.environ.get("COPYRATOR_E2E_CLUSTER"):
        yield Cluster.attach(Path(given))
        return
    directory = directory_of()
    if os.environ.get("COPYRATOR_E2E_KEEP"):
        yield Cluster.start(directory)
        return
    reap(state_root(), _PREFIX)
    with owned_cluster(directory) as owned:
        yield owned


@pytest.fixture(scope="session")
def referrers_registry() -> Iterator[str]:
    """`host:port` of a registry with the list of referrers; the cluster's has none."""
    with referrers.running() as host:
        yield host


@pytest.fixture(scope="module")
def disposable() -> Iterator[Cluster]:
    """A control plane for one file, which needn't tidy up.

    To start one takes 3 s of processor time, to delete a hundred namespaces 15 s.
    """
    with owned_cluster(directory_of("-own")) as owned:
        yield owned


def directory_of(suffix: str = "") -> Path:
    """Of a cluster of this worker in this run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")[:12]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return state_root() / f"{_PREFIX}{run}-{worker}{suffix}"


@pytest.fixture(scope="module", autouse=True)
def nothing_for_the_next_operator(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rules and Bundles of a file whose namespaces are being deleted are gone at its end.

    They have finalizers, and the file's operator has ended: without this the next file's would
    uninstall them, and its requests, Events and metrics would be counted there.
    """
    if not _uses_a_cluster(request):
        yield
        return
    api = request.getfixturevalue("cluster").api()
    yield
    for collection in OURS:
        try:
            found = api.metadata(collection)
        except (ApiStatusError, RecursionError):
            continue  # the file has removed the CRD, or made objects with managedFields too deep
        ending = {
            one["metadata"]["name"]
            for one in api.get("/api/v1/namespaces")["items"]
            if one["status"]["phase"] == "Terminating"
        }
        for metadata in found:
            _remove_finalizers(api, collection, metadata, ending)


def _remove_finalizers(
    api: Api, collection: str, metadata: dict[str, Any], ending: set[str]
) -> None:
    if metadata["namespace"] not in ending and "deletionTimestamp" not in metadata:
        return
    prefix, _, plural = collection.rpartition("/")
    path = f"{prefix}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
    for ask in (api.delete, api.remove_finalizers):
        try:
            ask(path)
        except RecursionError:  # in reading the answer; what was asked for is done
            continue
        except ApiStatusError as error:
            if error.code != 404:
                raise


def _uses_a_cluster(request: pytest.FixtureRequest) -> bool:
    return any("cluster" in getattr(test, "fixturenames", ()) for test in _tests_of(request))


def _tests_of(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """The tests of a module's fixture's module."""
    return [item for item in request.session.items if request.node in item.listchain()]


@pytest.fixture(scope="module", autouse=True)
def refusals(request: pytest.FixtureRequest) -> Iterator[None]:
    """The chart's rights suffice: no operator of the module asked for what it may not have.

    A test that takes rights away says what it expects, as patterns of verb and resource:
    `@pytest.mark.refused("create configmaps", "patch */status")`.
    """
    if not _uses_a_cluster(request):
        yield
        return
    tests = _tests_of(request)
    requests = request.getfixturevalue("cluster").requests()
    yield
    expected = {
        pattern for test in tests for mark in test.iter_markers("refused") for pattern in mark.args
    }
    found = Counter(
        f"{event.verb} {event.resource}" + (f"/{event.subresource}" if event.subresource else "")
        for event in requests.all(denied=True)
        if fnmatch(event.user, _OPERATORS)
    )
    unexpected = {
        asked: times
        for asked, times in found.items()
        if not any(fnmatch(asked, pattern) for pattern in expected)
    }
    assert not unexpected, f"the operator lacks rights: {unexpected}"


@pytest.fixture(scope="module", autouse=True)
def stalls_until_the_end() -> Iterator[None]:
    """What operators of a module said while they were ended, after the last test."""
    yield
    found = stalls.new_ones()
    stalls.forget()
    assert not found, "an operator's event loop was blocked:\n" + "\n".join(found)


@pytest.fixture(autouse=True)
def loops_that_are_never_held(request: pytest.FixtureRequest) -> Iterator[None]:
    """No callback of an operator takes over 250 ms of processor time (copyrator.runtime.watchdog).

    A test that provokes that says what it expects in the line: `@pytest.mark.stalls("worker")`.
    """
    yield
    expected = [word for mark in request.node.iter_markers("stalls") for word in mark.args]
    found = [line for line in stalls.new_ones() if not any(word in line for word in expected)]
    assert not found, "an operator's event loop was blocked:\n" + "\n".join(found)


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Api:
    """A synchronous client with all rights, which isn't the code under test."""
    return cluster.api()


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes namespaces with unique names: `namespace("team", labels={…})`.

    They vanish later, but for those of a control plane that goes with its file.
    """
    made: list[str] = []

    def make(
        prefix: str = "test",
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> str:
        name = f"{prefix}-{secrets.token_hex(3)}"
        metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        made.append(name)
        api.create("/api/v1/namespaces", {"metadata": metadata})
        return name

    yield make
    if made and "disposable" not in request.fixturenames:
        vanish(request.getfixturevalue("cluster"), made)


@pytest.fixture
def requests(cluster: Cluster) -> Requests:
    """The requests to the API server since the test began: `requests.count(user=…)`."""
    return cluster.requests()
