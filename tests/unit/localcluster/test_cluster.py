"""A local control plane: its addresses, pins and certificates, and how its requests are counted."""

import json
import re
import shutil
import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localcluster import download, pins
from localcluster.audit import WRITE_VERBS, Requests, offset, read_events
from localcluster.components import Plan, listeners
from localcluster.credentials import Credentials
from localcluster.pins import CLUSTER_PROGRAMS, MODULES, Module, module_of, pinned_version
from localcluster.state import ClusterState, Layout

# --- A local control plane keeps to loopback, RBAC and its directory; its programs are pinned -----


def plan() -> Plan:
    ports = {name: 20000 + n for n, name in enumerate(listeners(registry=True))}
    state = ClusterState(ports, True, True)
    programs = {name: Path("/programs") / name for name in CLUSTER_PROGRAMS}
    return Plan(Layout(Path("/clusters/one")), state, programs)


def test_every_address_is_on_loopback() -> None:
    for name in plan().names():
        words = " ".join(plan().component(name).command)
        hosts = re.findall(r"(?:address=|https?://)([\w.]+)", words)
        assert set(hosts) <= {"127.0.0.1", "kubernetes.default.svc.cluster.local"}, name


def test_all_that_is_written_goes_under_the_directory() -> None:
    for name in plan().names():
        for word in plan().component(name).command[1:]:
            path = word.partition("=")[2]
            if path.startswith("/"):
                assert path.startswith("/clusters/one/"), f"{name}: {word}"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """The module of what a cluster runs in a copy of `go/` that may be changed."""
    shutil.copytree(pins.GO_DIR, tmp_path / "go")
    monkeypatch.setattr(pins, "GO_DIR", tmp_path / "go")
    return module_of("etcd")


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "registry/main.go"])
def test_a_change_of_a_pin_changes_the_key_of_its_module_only(cluster: Module, file: str) -> None:
    before = {module.name: module.key() for module in MODULES}

    with (cluster.directory / file).open("a") as changed:
        changed.write("// another\n")

    after = {module.name: module.key() for module in MODULES}
    assert {name for name in before if before[name] != after[name]} == {"cluster"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_module_is_pinned_and_names_its_go(module: Module) -> None:
    assert module.version
    assert (1, 20, 0) < module.required_go() < (1, 27, 0)
    sums = (module.directory / "go.sum").read_text()
    for upstream in (module.requires, *module.others.values()):
        assert f"{upstream} {pinned_version(module.directory, upstream)} h1:" in sums


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_official_builds_of_all_pinned_versions_have_a_checksum(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one they are compiled."""
    monkeypatch.setattr(download, "go_platform", lambda: f"linux/{architecture}")
    cluster = module_of("kubectl")
    kubernetes = {name: cluster.packages[name] for name in cluster.packages.keys() - cluster.others}
    others = [
        replace(cluster, name=path.name, packages=kubernetes, others={})
        for path in pins.GO_DIR.glob("kube*")
    ]
    sums = (pins.GO_DIR / "SHA256SUMS").read_text().splitlines()
    listed = {line.split()[1] for line in sums if f"{architecture}" in line}

    files = [
        download._File.of(release, module, program)
        for module in {module.name: module for module in [*MODULES, *others]}.values()
        for program in module.packages
        if (release := download.RELEASES.get(module.upstream(program)))
    ]

    assert [file.url for file in files if not file.pinned] == []
    assert {file.url.removeprefix("https://") for file in files} == listed


def test_removing_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    layout = Layout(tmp_path / "cluster")
    layout.root.mkdir()
    layout.registry.symlink_to(outside)

    layout.remove()

    assert (outside / "kept").exists()
    assert not layout.root.exists()


# --- Kubeconfigs hold certificates that strict verifiers take, as Python's is from 3.13 on --------


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    layout = Layout(tmp_path)
    layout.prepare()
    made = Credentials(layout, "https://127.0.0.1:6443")
    made.prepare({"admin": ("admin", ("system:masters", "more"))})
    return made


def strict(purpose: ssl.Purpose, ca: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=str(ca))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"])
def test_server_and_client_prove_themselves_to_each_other(
    credentials: Credentials, host: str
) -> None:
    pki = credentials.layout.pki
    server = strict(ssl.Purpose.CLIENT_AUTH, pki / "ca.crt")
    server.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    client = strict(ssl.Purpose.SERVER_AUTH, pki / "ca.crt")
    client.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=host)
    there = server.wrap_bio(to_server, to_client, server_side=True)

    for side in (here, there, here, there, here):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue

    subject = there.getpeercert()["subject"]  # type: ignore[index]
    assert subject == (
        (("organizationName", "system:masters"),),
        (("organizationName", "more"),),
        (("commonName", "admin"),),
    )


# --- Requests are counted once each, by user, verb and resource -----------------------------------


def entry(number: int, verb: str, resource: str = "secrets", **more: Any) -> dict[str, Any]:
    return {
        "auditID": str(number),
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/a/{resource}",
        "verb": verb,
        "user": {"username": "bot"},
        "objectRef": {"resource": resource, "namespace": "a", "name": "n"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-21T18:00:00.250000Z",
        "stageTimestamp": "2026-11-21T18:00:00.750000Z",
        **more,
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def write(log: Path, *entries: dict[str, Any]) -> None:
    """Of a write there is a line when it comes, too."""
    with log.open("a") as lines:
        for one in entries:
            if one["verb"] in WRITE_VERBS:
                lines.write(json.dumps({**one, "stage": "RequestReceived"}) + "\n")
            lines.write(json.dumps(one) + "\n")


def test_only_what_came_since_is_read(log: Path) -> None:
    assert offset(log) == 0
    write(log, entry(1, "create"))
    requests = Requests(log, offset(log))
    write(log, entry(2, "update"), entry(3, "get"), entry(4, "update", "configmaps"))

    assert requests.count() == Counter(
        {("update", "secrets"): 1, ("update", "configmaps"): 1, ("get", "secrets"): 1}
    )
    assert len(requests.writes()) == 2
    assert len(requests.all(resource="configmaps", verb="update")) == 1
    assert requests.all(user="someone") == []


def test_a_write_that_came_before_is_not_counted_where_its_last_line_is_late(log: Path) -> None:
    """What it did may be seen before that line."""
    write(log, received(1, datetime.now(UTC)))
    requests = Requests(log, offset(log))
    write(log, entry(2, "update"))
    with log.open("a") as lines:
        lines.write(json.dumps(entry(1, "update")) + "\n")
    write(log, entry(3, "get"))

    assert [event.verb for event in requests.all()] == ["update", "get"]


def test_a_line_that_was_being_written_when_it_began_was_before(log: Path) -> None:
    whole = json.dumps(entry(1, "create")) + "\n"
    log.write_text(whole[:40])
    requests = Requests(log, offset(log))
    assert requests.all() == []

    log.write_text(whole)
    write(log, entry(2, "update"))

    assert [event.verb for event in requests.all()] == ["update"]


def test_a_missing_right_is_told_from_another_403(log: Path) -> None:
    refused = {"responseStatus": {"code": 403}}
    forbid, allow = ({"authorization.k8s.io/decision": word} for word in ("forbid", "allow"))
    write(log, entry(1, "create", annotations=forbid, **refused))
    write(log, entry(2, "create", annotations=allow, **refused))

    assert [event.denied for event in read_events(log)] == [True, False]


def received(number: int, at: datetime) -> dict[str, Any]:
    return entry(number, "update", stage="RequestReceived", stageTimestamp=at.isoformat())


def test_a_write_that_came_and_is_not_done_is_waited_for(log: Path) -> None:
    write(log, received(1, datetime.now(UTC)))
    with ThreadPoolExecutor(1) as others:
        found = others.submit(read_events, log)
        with pytest.raises(TimeoutError):
            found.result(0.1)
        write(log, received(2, datetime.now(UTC)), entry(1, "update"))
        # What came after the look isn't waited for, or a busy server would never be read.
        assert [event.verb for event in found.result(60)] == ["update"]
