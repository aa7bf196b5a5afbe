"""Namespaces that vanish with all that is in them: their keys are deleted in etcd.

To delete one through the API server takes the namespace controller 70 requests, a fifth of a
second of processor time, and a Bundle's uninstall comes on top; a run has 1,400 namespaces.
"""

import base64
import json
import urllib.request
from collections.abc import Collection, Iterable

from tests.e2e.operator_process import DIRECT

from localcluster import Cluster

_PREFIX = "/registry/"
_OURS = ("/registry/flant.com/", "/registry/operator.werf.dev/")
_NAMESPACES = "/registry/namespaces/"
_OPERATIONS = 128
"""That etcd takes in one transaction."""


def vanish(cluster: Cluster, namespaces: Collection[str]) -> None:
    """Remove these namespaces and the objects in them, without their finalizers.

    Rules and Bundles go first, so that nobody mends what goes after them; then the namespaces, so
    that no controller makes anything in them anew.
    """
    names = set(namespaces)
    keys = [key for key in _keys(cluster) if _is_in(key, names)]
    ours = [key for key in keys if key.startswith(_OURS)]
    places = [key for key in keys if key.startswith(_NAMESPACES)]
    rest = set(keys).difference(ours, places)
    for some in (ours, places, sorted(rest)):
        _delete(cluster, some)


def sweep(cluster: Cluster, word: str) -> None:
    """Remove all namespaces whose names begin so."""
    there = cluster.api().metadata("/api/v1/namespaces")
    vanish(cluster, [one["name"] for one in there if one["name"].startswith(word)])


def _keys(cluster: Cluster) -> list[str]:
    """The keys of all objects."""
    end = _PREFIX[:-1] + chr(ord("/") + 1)
    asked = {"key": _encoded(_PREFIX), "range_end": _encoded(end), "keys_only": True}
    found = _ask(cluster, "range", asked).get("kvs", [])
    return [base64.b64decode(one["key"]).decode() for one in found]


def _is_in(key: str, names: Collection[str]) -> bool:
    """Whether a key is of one of the namespaces or of an object in it.

    It is /registry[/GROUP]/RESOURCE/NAMESPACE/NAME, or /registry/services/specs/NAMESPACE/NAME.
    """
    *places, name = key.removeprefix(_PREFIX).split("/")
    return name in names if places == ["namespaces"] else not names.isdisjoint(places)


def _delete(cluster: Cluster, keys: list[str]) -> None:
    for some in _batches(keys):
        steps = [{"request_delete_range": {"key": _encoded(key)}} for key in some]
        _ask(cluster, "txn", {"success": steps})


def _batches(keys: list[str]) -> Iterable[list[str]]:
    return (keys[start : start + _OPERATIONS] for start in range(0, len(keys), _OPERATIONS))


def _ask(cluster: Cluster, what: str, body: dict) -> dict:
    port = cluster.supervisor.plan.state.ports["etcd"]
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/kv/{what}", data)
    with DIRECT.open(request, timeout=30) as answer:
        return json.load(answer)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
