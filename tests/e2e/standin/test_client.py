"""The stand-in's own client in a pod without a kubeconfig, which the process node always gives."""

import base64
import contextlib
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tests.e2e.standin.conftest import Werf

from localcluster import Api, Cluster
from localcluster.standin import client
from localcluster.standin.errors import WerfError


def test_without_a_kubeconfig_the_account_is_the_pods(
    werf: Werf, cluster: Cluster, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = f"/api/v1/namespaces/{werf.namespace}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "pods"}})
    account = cluster.kubeconfig_for_service_account(werf.namespace, "pods")
    config = yaml.safe_load(account.read_text())
    server = config["clusters"][0]["cluster"]
    authority = base64.b64decode(server["certificate-authority-data"])
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "token").write_text(config["users"][0]["user"]["token"])
    for name in ("KUBECONFIG", "WERF_KUBE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join([str(cluster.bin_dir), os.environ["PATH"]]))
    monkeypatch.setenv("HOME", str(tmp_path))
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(WerfError, match="no kubeconfig, and no service account of a pod"):
        client.Client(werf.namespace)

    address = urlsplit(server["server"])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setattr(client, "_ACCOUNT", tmp_path)
    user = f"system:serviceaccount:{werf.namespace}:pods"
    found = client.Client(werf.namespace)
    with (
        contextlib.closing(found),
        pytest.raises(client.RefusedError, match=f'User "{user}" cannot get resource'),
    ):
        found.get(wanted)
