"""The process: how it starts, waits, says what is wrong, and ends. Both ways to run it."""

import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from tests.e2e.cli.conftest import Stage
from tests.e2e.faults.proxy import Exchange, FaultProxy, holds, only
from tests.e2e.installation import apply, delete_crds, install, serves
from tests.e2e.operator_process import KOPF_RUN, RUN, OperatorProcess, until

from demo.chart import ROOT
from localcluster import Cluster

pytestmark = pytest.mark.timeout(180)

CRDS = ("copyrators.flant.com", "bundles.operator.werf.dev")
OLD = "copyrator.flant.com"
UNANSWERED, WATCHES = r'copyrator_api_requests_total\{code="0".*\}', r"copyrator_watches\{.*\}"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of these tests' own: they stop its API server and delete its CRDs."""
    directory = tmp_path_factory.mktemp("own") / "cluster"
    with Cluster.start(directory, process_node=False, registry=False) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def empty(own: Cluster) -> Stage:
    """A command line on it, where nothing is installed yet."""
    return Stage(own, own.api(), "copyrator", "default", None, own.admin_kubeconfig)


# The first of this file: before the chart is installed


def test_doctor_misses_crds_deployment_and_lease(empty):
    said = empty.types("doctor", code=1)
    assert "ok   API server: v1." in said
    for crd in ("copyrators.flant.com", "bundles.operator.werf.dev"):
        assert f"FAIL CRDs: the CRD {crd} is missing: install the chart, or " in said
    assert "?    Deployment: not found" in said
    assert "FAIL Lease: the Lease" in said


def test_a_command_says_that_the_crd_is_missing(empty):
    for command in ("get copies", "describe rule a", "why default/a", "history bundle a"):
        assert empty.types(command, code=1) == (
            "Error: the API server doesn't serve this kind; check that Copyrator's CRDs are "
            "installed: copyrator doctor\n"
        )


# Where it is installed


@pytest.fixture(scope="module")
def kubeconfig(own: Cluster) -> Path:
    """The operator's, under the rights that the chart gives."""
    return install(own)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "operator.log"


def complaints(process: OperatorProcess) -> list[str]:
    """The lines that a person would call an error message."""
    return re.findall(
        r"^(?:Error: .*|.*\b(?:WARNING|ERROR|CRITICAL)\b.*)$", process.log, re.MULTILINE
    )


BOTH = pytest.mark.parametrize(
    ("command", "number"),
    [(RUN, signal.SIGINT), (KOPF_RUN, signal.SIGTERM)],
    ids=["copyrator run", "kopf run"],
)


@BOTH
def test_both_ways_it_gets_ready_copies_leaving_nothing_of_kopfs_and_ends_with_code_0(
    own, kubeconfig, log, command, number
):
    """By SIGTERM `copyrator run` ends in all other tests."""
    name = "run" if command is RUN else "kopf-run"
    api, path = own.api(), "/apis/flant.com/v1/namespaces/copyrator/copyrators"
    secret = {"metadata": {"name": name, "labels": {"copy": name}}, "stringData": {"a": "b"}}
    api.create("/api/v1/namespaces/copyrator/secrets", secret)
    rule = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": name},
        "ruleType": "secret",
        "selector": {"copy": name},
    }
    settings = {"NAMESPACE": "copyrator"}
    with OperatorProcess(kubeconfig, log, command=command, settings=settings, real=True) as process:
        process.wait_ready()
        assert process.get("/healthz") == (200, "ok\n")
        status, metrics = process.get("/metrics")
        assert status == 200
        for part in ("build_info{", "queue_depth ", "watches{", 'api_requests_total{code="200"'):
            assert f"\ncopyrator_{part}" in metrics
        assert "\ncopyrator_event_loop_stall_seconds_count " in metrics
        api.create(path, rule)
        listing = "/api/v1/namespaces/default/secrets"
        names = lambda: [item["metadata"]["name"] for item in api.get(listing)["items"]]  # noqa: E731
        until(lambda: name in names(), lambda: process.log)
        there = api.get(f"{path}/{name}")
        assert "kopf" not in yaml.safe_dump(there).replace("kopf-run", "")
        api.delete(f"{path}/{name}")
        rules = lambda: [item["metadata"]["name"] for item in api.get(path)["items"]]  # noqa: E731
        until(lambda: name not in names() + rules(), lambda: process.log)
        assert process.stop(number) == 0
        assert complaints(process) == []
        assert process.log.rstrip().endswith("Stopped")


@pytest.mark.parametrize("command", [RUN, KOPF_RUN], ids=["copyrator run", "kopf run"])
def test_a_kubeconfig_that_does_not_exist_is_one_message_and_code_2(tmp_path, log, command):
    with OperatorProcess(tmp_path / "nothing", log, command=command) as process:
        assert process.wait() == 2
        (message,) = complaints(process)
        assert str(tmp_path / "nothing") in message
        assert "doesn't exist" in message
        assert "Traceback" not in process.log


def test_a_wrong_variable_is_one_message_and_code_2(kubeconfig, log):
    settings = {"WERF_OPERATOR_TIMER_INTERVAL": "never"}
    with OperatorProcess(kubeconfig, log, settings=settings) as process:
        assert process.wait() == 2
        (message,) = complaints(process)
        assert "WERF_OPERATOR_TIMER_INTERVAL" in message


def test_a_health_port_that_is_taken_is_one_message_and_code_1(kubeconfig, log):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        settings = {"COPYRATOR_HEALTH_PORT": port}
        with OperatorProcess(kubeconfig, log, settings=settings) as process:
            assert process.wait() == 1
            (message,) = complaints(process)
            assert f"127.0.0.1:{port}" in message
            assert "--health-port" in message
            assert "Traceback" not in process.log


def test_an_api_server_that_is_not_there_is_waited_for_with_one_message(kubeconfig, tmp_path, log):
    config = yaml.safe_load(kubeconfig.read_text())
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"https://127.0.0.1:{closed.getsockname()[1]}"
    config["clusters"][0]["cluster"]["server"] = nowhere
    absent = tmp_path / "absent"
    absent.write_text(yaml.safe_dump(config))
    with OperatorProcess(absent, log) as process:
        body = process.wait_says("can't be reached")
        assert nowhere in body
        assert process.get("/healthz") == (200, "ok\n")
        until(lambda: complaints(process), "a message")
        # Three more tries, by the pauses of prerequisites.py, then still one message.
        until(lambda: counted(process, UNANSWERED) >= 4, lambda: process.get("/metrics")[1])
        (message,) = complaints(process)
        assert nowhere in message
        assert process.stop() == 0
        assert "Traceback" not in process.log


def counted(process: OperatorProcess, series: str) -> float:
    """The sum of a series, of which a pattern is given, by the operator's own count."""
    values = re.findall(rf"^{series} (\S+)$", process.get("/metrics")[1], re.MULTILINE)
    return sum(map(float, values))


def make_crds(own: Cluster) -> None:
    apply(own.api(), [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml")])


@pytest.fixture
def crds_come_back(own: Cluster) -> Iterator[None]:
    """Whatever becomes of a test that deletes CRDs, the next one finds them."""
    yield
    delete_crds(own.api(), OLD)
    make_crds(own)
    until(lambda: serves(own.api()), "the API server serves rules and Bundles")


@pytest.mark.usefixtures("crds_come_back")
def test_a_crd_of_an_older_operator_is_named_as_the_reason(own, kubeconfig, log):
    # The original's CRD in its working form: another plural, the same kind (docs/adoption.md).
    delete_crds(own.api(), "copyrators.flant.com")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    old = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": OLD},
        "spec": {
            "group": "flant.com",
            "scope": "Namespaced",
            "names": {"plural": "copyrator", "singular": "copyrator", "kind": "CopyratorRule"},
            "versions": [version],
        },
    }
    own.api().create(CRD_PATH, old)
    until(lambda: established(own, OLD), f"{OLD} is established")
    make_crds(own)
    with OperatorProcess(kubeconfig, log) as process:
        body = process.wait_says("its names are taken")
        assert "copyrators.flant.com" in body
        assert "export its objects" in body
        delete_crds(own.api(), OLD)
        process.wait_ready()


def established(own: Cluster, name: str) -> bool:
    conditions = own.api().get(f"{CRD_PATH}/{name}").get("status", {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)


async def breaks(exchange: Exchange) -> web.StreamResponse:
    """No answer, as from nobody."""
    exchange.abort()
    return web.Response()


def test_it_outlives_its_api_server_and_says_once_that_it_is_away(own, kubeconfig, log, tmp_path):
    with (
        FaultProxy(own) as proxy,
        OperatorProcess(proxy.kubeconfig(kubeconfig, tmp_path / "proxied"), log) as process,
    ):
        process.wait_ready()
        with proxy.fault(breaks):
            process.wait_says("namespaces")
            process.wait_says("lead: the Lease copyrator/copyrator wasn't renewed for 7 s")
            assert process.get("/healthz") == (200, "ok\n")
            # Each watch may say it: that it broke, and that it then was refused.
            said = len(complaints(process))
            assert 1 <= said <= 2 * (counted(process, WATCHES) + 2), process.log
        process.wait_ready()
        assert process.log.count("Started:") == 1, "it went on where it was"
        assert "Traceback" not in process.log
        assert process.stop() == 0


@pytest.mark.usefixtures("crds_come_back")
def test_missing_crds_are_named_with_the_remedy_and_waited_for_also_in_the_same_process(
    own, kubeconfig, log, tmp_path
):
    """One is deleted again, while the watch of the other kind is being opened."""
    # Where kopf waits for an answer it takes the end for a pause, and once went on for ever.
    answer = threading.Event()
    delete_crds(own.api(), *CRDS)
    with (
        FaultProxy(own) as proxy,
        OperatorProcess(proxy.kubeconfig(kubeconfig, tmp_path / "proxied"), log) as process,
        ExitStack() as stack,
    ):
        body = process.wait_says("is missing")
        assert all(crd in body for crd in CRDS)
        assert "kubectl apply" in body
        assert process.get("/healthz") == (200, "ok\n")
        make_crds(own)
        process.wait_ready()

        stack.callback(answer.set)
        stack.enter_context(proxy.fault(holds(answer), only("watch", of=("copyrators",))))
        until(lambda: proxy.met(0), "the watch of rules is to be opened again")
        delete_crds(own.api(), "bundles.operator.werf.dev")
        process.wait_says("bundles.operator.werf.dev is missing")
        answer.set()
        make_crds(own)
        process.wait_ready()
        assert process.code is None, "it started again in the same process"
        assert "Traceback" not in process.log
        assert process.stop() == 0
