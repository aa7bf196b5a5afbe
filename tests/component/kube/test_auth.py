"""Credentials are found where kubectl would look, renewed in time, and missed with clear words."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from base64 import b64encode
from dataclasses import fields
from pathlib import Path
from threading import get_ident
from typing import Any

import kopf
import pytest
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_kube_config
from tests.authority import Authority
from tests.component.kube.fake_api import FakeApi, error, until

from copyrator.handlers.kopf_guard import KopfGuard
from copyrator.handlers.lifecycle import register_login
from copyrator.kube import auth
from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint, KubeconfigError
from copyrator.kube.resources import CONFIGMAPS


@pytest.fixture(autouse=True)
def outside_of_any_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def kubeconfig(user: dict[str, Any] | None = None, server: str = "http://one:1") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "first",
        "clusters": [
            {"name": "one", "cluster": {"server": server}},
            {"name": "two", "cluster": {"server": "http://two:2/"}},
        ],
        "contexts": [
            {"name": "first", "context": {"cluster": "one", "user": "me"}},
            {"name": "second", "context": {"cluster": "two", "user": "me"}},
        ],
        "users": [{"name": "me", "user": user or {"token": "t0ken"}}],
    }


def tls(user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    config = kubeconfig(user, "https://one:1")
    config["clusters"][0]["cluster"].update(cluster)
    return config


def write(path: Path, config: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path


async def test_a_context_chooses_the_cluster(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig())
    assert (await load_connection(path, "second")).host == "http://two:2"


async def test_the_variable_names_one_file_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = kubeconfig()
    users = {"users": config.pop("users")}
    first = write(tmp_path / "one", config)
    second = write(tmp_path / "two", users)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, tmp_path / "no", second))))
    connection = await load_connection()
    assert (await connection.headers())["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(
    ("config", "context", "words"),
    [
        (None, None, ["/config", "doesn't exist", "--kubeconfig"]),
        ("a: [", None, ["/config", "isn't YAML"]),
        ("", None, ["/config", "is empty"]),
        (kubeconfig(), "third", ["no context 'third'", "first, second", "--context"]),
        ({**kubeconfig(), "current-context": ""}, None, ["no current context", "--context"]),
        (
            {**kubeconfig(), "clusters": []},
            None,
            ["/config", "no cluster 'one'", "'first'", "none"],
        ),
        ({**kubeconfig(), "users": []}, None, ["/config", "no user 'me'", "'first'"]),
        ({**kubeconfig(), "users": {"me": 1}}, None, ["/config", "users isn't a list of maps"]),
        ({**kubeconfig(), "clusters": ["one"]}, None, ["/config", "clusters isn't a list"]),
        ({**kubeconfig(), "contexts": [{"name": "a", "context": "b"}]}, None, ["contexts isn't"]),
        (kubeconfig(server="one:1"), None, ["/config", "'one:1'", "https://"]),
        (kubeconfig({"token": 5}), None, ["/config", "token isn't a string", "quotation marks"]),
        (kubeconfig({"token": "a\nb"}), None, ["/config", "the token", "header"]),
        (kubeconfig({"exec": "aws"}), None, ["/config", "exec", "isn't a map"]),
        (kubeconfig({"token": "t", "as": "x"}), None, ["as of its user isn't supported"]),
        (kubeconfig({"token": "t", "as-groups": ["x"]}), None, ["as-groups of its user isn't"]),
        (kubeconfig({"auth-provider": {"name": "azure"}}), None, ["the auth-provider 'azure' of"]),
        (tls(**{"certificate-authority-data": "x"}), None, ["authority-data isn't base64"]),
        (tls(**{"certificate-authority-data": "eHg="}), None, ["CA's certificate isn't valid PEM"]),
        (tls(**{"proxy-url": "socks5://p:1"}), None, ["proxy-url isn't an http://"]),
        (
            tls({"client-certificate-data": "eHg=", "client-key-data": "eHg="}),
            None,
            ["the client's certificate and key aren't a pair"],
        ),
        (kubeconfig({"tokenFile": "/no/such/token"}), None, ["can't be used", "/no/such/token"]),
        (
            kubeconfig({"exec": {"apiVersion": "v1", "command": "false"}}),
            None,
            ["exec plug-in 'false'", "run it manually"],
        ),
        (
            kubeconfig({"exec": {"apiVersion": "v1", "command": "no-such-plugin"}}),
            None,
            ["exec plug-in 'no-such-plugin'"],
        ),
    ],
)
async def test_what_is_wrong_is_said_with_the_file_and_the_remedy(
    tmp_path: Path, config: Any, context: str | None, words: list[str]
) -> None:
    path = tmp_path / "config"
    if config is not None:
        write(path, config)
    with pytest.raises(KubeconfigError) as caught:
        await load_connection(path, context)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


TLS = {"server": "https://one:1"}
CLUSTERS: dict[str, dict[str, Any]] = {
    "plain": {"server": "http://one:1/"},
    "of a proxy": {"server": "http://one:1", "proxy-url": "http://proxy:3"},
    "its CA in a file": {**TLS, "certificate-authority": "ca.crt", "tls-server-name": "api"},
    "its CA inside": {**TLS, "certificate-authority-data": "CA"},
    "not verified": {**TLS, "insecure-skip-tls-verify": True},
}
USERS: dict[str, dict[str, Any]] = {
    "a token": {"token": "t0ken\n", "username": "u", "password": "p"},
    "a token's file": {"tokenFile": "token"},
    "both": {"token": "t0ken", "tokenFile": "no-such-file"},
    "a password": {"username": "u", "password": "p:q"},
    "only a name": {"username": "u"},
    "a certificate": {"client-certificate": "client.crt", "client-key": "../here/client.key"},
    "one inside": {"client-certificate-data": "CERTIFICATE", "client-key-data": "KEY"},
    "nothing": {},
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    authority = Authority.make(tmp_path_factory.mktemp("tls") / "ca")
    authority.context()
    files = {"CA": "ca.pem", "CERTIFICATE": "server.pem", "KEY": "server.key"}
    return {word: (authority.directory / file).read_text() for word, file in files.items()}


@pytest.mark.leaves("the library's, until the process ends", "file tmp")
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
async def test_a_kubeconfig_without_plugins_is_read_as_the_library_reads_it(
    tmp_path: Path, contents: dict[str, str], cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    here = tmp_path / "here"
    for name, text in zip(("ca.crt", "client.crt", "client.key"), contents.values(), strict=True):
        write(here / name, text)
    write(here / "token", "from-file\n")
    config = kubeconfig()
    config["clusters"][0]["cluster"] = encoded(cluster, contents)
    config["users"][0]["user"] = encoded(user, contents)
    path = write(here / "config", config)
    ours, library = (await load_connection(path)).endpoint, Configuration()
    await load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(path), client_configuration=library, persist_config=False
    )
    assert comparable(ours) == of_library(library)


def encoded(body: dict[str, Any], contents: dict[str, str]) -> dict[str, Any]:
    """A cluster or user with the contents of its `-data` in base64."""
    return {
        key: b64encode(contents[value].encode()).decode() if value in contents else value
        for key, value in body.items()
    }


def comparable(endpoint: Endpoint) -> dict[str, Any]:
    """An endpoint with its files' contents in place of their names."""
    found = {
        field.name: getattr(endpoint, field.name)
        for field in fields(endpoint)
        if field.name not in ("ssl", "valid_for")
    }
    context = endpoint.ssl
    assert (context is not None) == endpoint.host.startswith("https:")
    if context is not None:
        assert context.check_hostname is endpoint.verify
        assert (context.verify_mode is ssl.CERT_REQUIRED) is endpoint.verify
    return found | _files(endpoint.ca_file, endpoint.cert_file, endpoint.key_file)


def of_library(found: Any) -> dict[str, Any]:
    """The same of the library's Configuration."""
    token = found.api_key.get("BearerToken")
    return {
        "host": found.host.rstrip("/"),
        "authorization": token.strip() if token else None,
        "proxy": found.proxy or None,
        "server_hostname": found.tls_server_name or None,
        "verify": bool(found.verify_ssl),
        **_files(found.ssl_ca_cert, found.cert_file, found.key_file),
    }


def _files(*paths: str | None) -> dict[str, str | None]:
    contents = (Path(path).read_text() if path else None for path in paths)
    return dict(zip(("ca_file", "cert_file", "key_file"), contents, strict=True))


async def test_what_is_empty_counts_as_absent_as_kubectl_does(
    tmp_path: Path, contents: dict[str, str]
) -> None:
    """The library takes an empty field for the value."""
    ca = write(tmp_path / "ca.crt", contents["CA"])
    write(tmp_path / "token", "from-file\n")
    config = kubeconfig({"token": "", "tokenFile": "token", "exec": None, "username": None})
    config["clusters"][0]["cluster"] = {
        **TLS,
        "certificate-authority-data": "",
        "certificate-authority": "ca.crt",
        "proxy-url": "",
        "tls-server-name": None,
        "insecure-skip-tls-verify": "false",
    }
    endpoint = (await load_connection(write(tmp_path / "config", config))).endpoint
    assert endpoint.authorization == "Bearer from-file"
    assert endpoint.ca_file == str(ca)
    assert endpoint.verify
    config["users"][0]["user"] = {"token": "t0ken", "tokenFile": "", "client-certificate": ""}
    connection = await load_connection(write(tmp_path / "config", config))
    assert connection.endpoint.authorization == "Bearer t0ken"
    assert connection.endpoint.valid_for is None


async def test_a_kubeconfig_is_read_again_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = kubeconfig({"tokenFile": "token"})
    write(tmp_path / "token", "t0ken")
    now, threads, read = 1000.0, list[int](), auth._read
    connection = await load_connection(write(tmp_path / "config", config), clock=lambda: now)

    def read_there(*arguments: Any) -> Any:
        threads.append(get_ident())
        return read(*arguments)

    monkeypatch.setattr(auth, "_read", read_there)
    now += 61
    await connection.headers()
    assert connection.generation == 1
    assert len(threads) == 1
    assert threads != [get_ident()]


async def test_a_file_that_is_broken_while_it_is_replaced_leaves_the_former_credentials(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "config", kubeconfig({"tokenFile": "token"}))
    token, now = write(tmp_path / "token", "first"), 1000.0
    connection = await load_connection(path, clock=lambda: now)
    config = kubeconfig({"tokenFile": "token"})
    for broken in (token, path):
        for text in ("", "a\nb", "users: [x]\n"):
            if broken is path or ":" not in text:
                broken.write_text(text)
                now += 61
                assert (await connection.headers())["Authorization"] == "Bearer first", text
        write(path, config)
        token.write_text("first")
    assert "a\nb" not in caplog.text
    assert "credentials can't be renewed" in caplog.text
    token.write_text("second")
    now += 61
    assert (await connection.headers())["Authorization"] == "Bearer second"


def test_a_kubeconfig_without_plugins_loads_no_kubernetes_client(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig())
    code = f"""
import asyncio, sys
from copyrator.kube.auth import load_connection
asyncio.run(load_connection({str(path)!r}))
sys.exit(str([name for name in sys.modules if name.partition(".")[0] == "kubernetes"]))"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_the_systems_certificates_are_loaded_with_no_client() -> None:
    code = (
        "import ssl, copyrator.kube.client.client, copyrator.oci.client;"
        "import copyrator.runtime.supervisor;"
        "from aiohttp.connector import _SSL_CONTEXT_VERIFIED as default;"
        "print(default.cert_store_stats()['x509'],"
        "ssl.create_default_context().cert_store_stats()['x509'] > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "0 True"


async def test_without_kubeconfig_and_cluster_both_ways_are_named() -> None:
    with pytest.raises(KubeconfigError, match=r"not in a cluster.*--kubeconfig or KUBECONFIG"):
        await load_connection()


async def test_in_a_pod_without_a_token_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(KubeconfigError, match="automountServiceAccountToken"):
        await load_connection()


async def test_the_pods_token_is_read_again_when_it_rotates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = write(tmp_path / "token", "first\n")
    ca = write(tmp_path / "ca.crt", CA)
    monkeypatch.setattr(auth, "_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    now = 1000.0
    connection = await load_connection(clock=lambda: now)
    assert connection.host == "https://[fd00::1]:443"
    assert connection.ssl is not None
    assert (await connection.headers())["Authorization"] == "Bearer first"
    before = connection.ssl
    token.write_text("second")
    assert (await connection.headers())["Authorization"] == "Bearer first"
    now += 61
    assert (await connection.headers())["Authorization"] == "Bearer second"
    assert connection.ssl is before  # else every rotation would cost a TLS handshake per connection
    ca.write_text(CA + CA)
    now += 61
    await connection.renew(connection.generation)
    assert connection.ssl is not before


async def test_an_exec_plugin_is_run_again_when_its_token_is_refused(
    tmp_path: Path, api: FakeApi
) -> None:
    api.put("a")

    async def only_new(request: Any) -> Any:
        if request.headers["Authorization"] != "Bearer run-2":
            return await error(401, "Unauthorized")(request)
        return await api.serve(request)

    api.always("get", only_new)
    plugin = write(
        tmp_path / "plugin",
        f"""#!{sys.executable}
import json, pathlib
counter = pathlib.Path({str(tmp_path / "runs")!r})
runs = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(runs))
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": {{"token": f"run-{{runs}}"}}}}))
""",
    )
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    path = write(tmp_path / "config", kubeconfig(user, api.url))
    async with KubeClient(await load_connection(path)) as client:
        for _ in range(3):
            await client.get(CONFIGMAPS, "ns", "a")
    assert (tmp_path / "runs").read_text() == "2"
    assert api.count("get") == 4


async def test_a_proxy_of_the_environment_is_used_except_where_it_says_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "config", kubeconfig())
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert (await load_connection(path)).endpoint.proxy == "http://proxy:3128"
    monkeypatch.setenv("no_proxy", "one")
    assert (await load_connection(path)).endpoint.proxy is None


def test_a_token_does_not_show_when_an_endpoint_is_printed() -> None:
    endpoint = Endpoint(host="http://one:1", authorization="Bearer sentinel")
    assert "sentinel" not in f"{endpoint} {endpoint!r}"


# --- kopf ----------------------------------------------------------------------------------------


async def test_kopf_survives_a_lasting_401_and_does_not_storm(api: FakeApi) -> None:
    """Measured without the guard: 42 logins a second."""
    registry = kopf.OperatorRegistry()
    connection = Connection(Endpoint(host=api.url, authorization="Bearer t"))
    register_login(registry, KopfGuard(connection))
    for verb in ("get", "list", "watch"):
        api.always(verb, error(401, "Unauthorized"))

    @kopf.on.event("configmaps", registry=registry)
    async def handler(**_: Any) -> None:
        """Makes kopf watch something."""

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    stop = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry, settings=settings, stop_flag=stop, clusterwide=True, standalone=True
        )
    )
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(2.5)  # a rate is measured over a time, which may be longer
    await until(lambda: len(api.seen) >= 2, "it asks again")
    assert not operator.done()
    assert len(api.seen) < 10 * (asyncio.get_running_loop().time() - began)
    assert all(seen.headers["Authorization"] == "Bearer t" for seen in api.seen)
    stop.set()
    await asyncio.wait_for(operator, 60)


CA = """-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUcNPXpbULIf9D0lPV7+2/5is5ZicwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjExMjUwNDdaGA8yMTI2MTAyODEyNTA0
N1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCQX
ED0Nl8RNcbwYj36CI9ct0qAOmz+KDjKYl+fsAP0duqTEAm1ZpXbQIxZ1N3hTComU
xRJD+Mw7hChkksRABBSjUzBRMB0GA1UdDgQWBBTRSpjQuw2U1Vi+ENHnn9Ik6azY
5TAfBgNVHSMEGDAWgBTRSpjQuw2U1Vi+ENHnn9Ik6azY5TAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQDdN5hZsyDaleMAnedoMikQigYY13K9YQPO
mFu+FoNm6gIhAO4SoWzH+uycRcdkhJDLFeaGS6o5VlbgwhwATnZ6phlp
-----END CERTIFICATE-----
"""


V1BETA1 = "client.authentication.k8s.io/v1beta1"


def plugin(path: Path, **status: Any) -> Path:
    answer = {"apiVersion": V1BETA1, "kind": "ExecCredential", "status": status}
    write(path, f"#!/bin/sh\necho '{json.dumps(answer)}'\n").chmod(0o755)
    return path


def exec_user(command: Path | str, **more: Any) -> dict[str, Any]:
    """As aws, gcloud, kubelogin and `kubectl config set-credentials` write it."""
    nothing = {"args": None, "env": None, "provideClusterInfo": False}
    return {"exec": {"apiVersion": V1BETA1, "command": str(command), **nothing}, **more}


async def test_a_token_comes_before_a_plugin_as_for_kubectl(tmp_path: Path) -> None:
    user = exec_user(plugin(tmp_path / "plugin", token="of-plugin"), token="t0ken")
    connection = await load_connection(write(tmp_path / "config", kubeconfig(user)))
    assert (await connection.headers())["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("command", ["./plugin", "bin/plugin"])
async def test_a_plugin_with_a_relative_path_is_found_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "bin").mkdir()
    plugin(tmp_path / command, token="t0ken")
    connection = await load_connection(write(tmp_path / "config", kubeconfig(exec_user(command))))
    assert (await connection.headers())["Authorization"] == "Bearer t0ken"


async def test_of_several_files_the_plugin_is_that_of_the_context_in_use(tmp_path: Path) -> None:
    """Each file has a current context, and the first counts: no other user's token is sent."""
    paths = []
    for name in ("aks", "eks"):
        config = kubeconfig(
            exec_user(plugin(tmp_path / name, token=f"of-{name}")), f"http://{name}"
        )
        config["users"][0]["name"] = name
        for context in config["contexts"]:
            context["name"] += name
            context["context"]["user"] = name
        config["clusters"][0]["name"] = config["contexts"][0]["context"]["cluster"] = name
        config["current-context"] = f"first{name}"
        paths.append(write(tmp_path / f"{name}.yaml", config))
    connection = await load_connection(os.pathsep.join(map(str, paths)))
    assert connection.host == "http://aks"
    assert (await connection.headers())["Authorization"] == "Bearer of-aks"


async def test_a_plugin_without_a_token_is_named(tmp_path: Path) -> None:
    user = exec_user(plugin(tmp_path / "plugin", token=""))
    with pytest.raises(KubeconfigError, match=r"exec plug-in '.*plugin' returned no credentials"):
        await load_connection(write(tmp_path / "config", kubeconfig(user)))


@pytest.mark.leaves("the library's, until the process ends", "file tmp")
async def test_a_plugin_may_give_a_certificate(tmp_path: Path, contents: dict[str, str]) -> None:
    pair = {"clientCertificateData": contents["CERTIFICATE"], "clientKeyData": contents["KEY"]}
    answer = {"apiVersion": V1BETA1, "kind": "ExecCredential", "status": pair}
    write(tmp_path / "answer", json.dumps(answer))
    write(tmp_path / "plugin", f"#!/bin/sh\ncat {tmp_path / 'answer'}\n").chmod(0o755)
    ca = {"certificate-authority-data": b64encode(contents["CA"].encode()).decode()}
    path = write(tmp_path / "config", tls(exec_user("./plugin"), **ca))
    endpoint = (await load_connection(path)).endpoint
    assert endpoint.authorization is None
    read = _files(endpoint.ca_file, endpoint.cert_file, endpoint.key_file)
    assert [*read.values()] == [contents[name] for name in ("CA", "CERTIFICATE", "KEY")]


async def test_the_file_at_home_is_the_last_resort(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".kube" / "config", kubeconfig())
    assert (await load_connection()).host == "http://one:1"
