"""The values of the webhook's receiver, from the chart to a refusal.

The operator gets the variables of the rendered chart. The test stands in for the kubelet, and
writes the Secret that the chart mounts into a file.
"""

import base64
import contextlib
import json
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.rig import free_port
from tests.e2e.bundles.conftest import Team, end_lasting
from tests.e2e.bundles.test_chart_protections import ADDRESSES, OFTEN
from tests.e2e.bundles.test_webhook import call
from tests.e2e.installation import Operator, installed, rendered

from localcluster import Api, Cluster

pytestmark = pytest.mark.promise

SECRET, OTHER = "of-the-key-that-the-chart-names", "of-another-key"
SECRET_FILE = "COPYRATOR_WEBHOOK_SECRET_FILE"
NOTHING = {"events": []}


@pytest.fixture(scope="module")
def listening(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Operator, int]]:
    """An operator as the chart with a webhook starts it, and the port that the values name."""
    end_lasting()
    values = {
        "bundles.allowRegistryAddresses": ADDRESSES,
        "bundles.timerInterval": 3600,
        "webhook.enabled": True,
        "webhook.port": (port := free_port()),
        "webhook.secretName": "hooks",
        "webhook.secretKey": "token",
        "webhook.trustedProxies": ["127.0.0.1/32"],
    }
    folder = tmp_path_factory.mktemp("webhook")
    settings = {name: OFTEN[name] for name in ("WERF_OPERATOR_TIMER_IDLE", "COPYRATOR_LOG_FORMAT")}
    log = folder / "operator.log"
    with installed(cluster, log, settings, values=values, as_rendered=True) as operator:
        keys = {"token": SECRET, "secret": OTHER}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in keys.items()}
        path = f"/api/v1/namespaces/{operator.namespace}/secrets"
        api.create(path, {"metadata": {"name": "hooks"}, "data": data})
        chart = rendered(cluster, operator.namespace, values).deployment
        operator.settings[SECRET_FILE] = str(mounted(api, path, chart, operator, folder))
        operator.start()
        yield operator, port
    assert SECRET not in log.read_text()


def mounted(api: Api, path: str, chart: dict[str, Any], operator: Operator, folder: Path) -> Path:
    """The file with the secret, as the kubelet would write it."""
    pod = chart["spec"]["template"]["spec"]
    (volume,) = (one["secret"] for one in pod["volumes"] if one["name"] == "webhook")
    mounts = pod["containers"][0]["volumeMounts"]
    (place,) = (one["mountPath"] for one in mounts if one["name"] == "webhook")
    found = api.get(f"{path}/{volume['secretName']}")["data"]
    files = {one["path"]: base64.b64decode(found[one["key"]]) for one in volume["items"]}
    file = folder / "secret"
    file.write_bytes(files[str(Path(operator.settings[SECRET_FILE]).relative_to(place))])
    return file


def test_only_who_knows_the_named_key_of_the_named_secret_is_heard(
    listening: tuple[Operator, int], team: Team
) -> None:
    hook = f"http://127.0.0.1:{listening[1]}/hooks/registry"
    team.bundle("shop")
    team.wait_reason("shop", "TagNotFound")
    team.publish("1.0.0", "first")
    pushed = {"registry": team.cluster.registry, "repository": team.repo, "tag": "1.0.0"}

    for wrong in (OTHER, "", "wrong"):
        assert call(hook, pushed, secret=wrong) == 401
    assert team.jobs("shop") == []

    assert call(hook, pushed, secret=SECRET) == 202
    team.first_job()  # the next poll is up to an hour away


@pytest.fixture
def signed(listening: tuple[Operator, int]) -> Iterator[Callable[[str], socket.socket]]:
    """Begins a signed call for a caller behind a trusted proxy, whose body never comes."""
    with contextlib.ExitStack() as opened:

        def begin(caller: str) -> socket.socket:
            made = socket.create_connection(("127.0.0.1", listening[1]), timeout=30)
            opened.enter_context(made)
            head = (
                "POST /hooks/registry HTTP/1.1",
                "Host: hooks",
                f"X-Forwarded-For: {caller}",
                f"X-Hub-Signature-256: sha256={'0' * 64}",
                f"Content-Length: {len(json.dumps(NOTHING))}",
            )
            made.sendall("\r\n".join((*head, "", "")).encode())
            return made

        yield begin


def test_behind_a_trusted_proxy_one_caller_holds_up_no_other(
    signed: Callable[[str], socket.socket],
) -> None:
    def is_first() -> bool:
        """Whether another caller is refused while one that is slow waits in all its places."""
        slow = [signed("198.51.100.1") for _ in range(3)]
        other = signed("198.51.100.2")
        other.sendall(json.dumps(NOTHING).encode())
        answered, _, _ = select.select([*slow, other], [], [], 30)
        assert answered, "none is answered"
        if answered != [other]:
            return False
        assert b" 401 " in other.recv(4096).splitlines()[0]
        assert all(b" 408 " in one.recv(4096).splitlines()[0] for one in slow)
        return True

    assert any(is_first() for _ in range(3))  # a slow call is given up after 5 s
