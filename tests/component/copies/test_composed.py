"""Objects that a template makes of several sources: reads and writes, counted."""

import asyncio
import base64
import json
import random
import re
import shutil
import ssl
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.builders.encoding import b64
from tests.component.copies.conftest import (
    HOME,
    Operator,
    counts,
    is_failing,
    make_rule,
    ready_of,
    reason,
    status_of,
)
from tests.component.kube.fake_api import until
from tests.long import LONG

from copyrator.copies.composed import composer
from copyrator.copies.timing import DEFAULT_TIMING
from localcluster.signing import self_signed

TARGETS = [f"team-{number:02}" for number in range(12)]
SPACES = {"targets": {"namespaces": ["team-*"]}}
TYPE = "kubernetes.io/dockerconfigjson"


def config(**hosts: str) -> dict[str, str]:
    auths = {host.replace("_", "."): {"auth": b64(f"u:{word}")} for host, word in hosts.items()}
    return {".dockerconfigjson": b64(json.dumps({"auths": auths}))}


def pull(cluster, name: str, /, *, metadata: Any = None, **hosts: str) -> None:
    """A Secret in infra; one that isn't called hub is among those that are selected."""
    labels = {} if name == "hub" else {"labels": {"registry": "yes"}}
    metadata = {**labels, **(metadata or {})}
    cluster.object("secrets", "infra", name, type=TYPE, data=config(**hosts), metadata=metadata)


def secret(name: str, namespace: str = "infra", alias: str = "hub", **more: Any) -> dict[str, Any]:
    return {"as": alias, "kind": "Secret", "namespace": namespace, "name": name, **more}


def selected(alias: str = "private", **more: Any) -> dict[str, Any]:
    labels = {"matchLabels": {"registry": "yes"}}
    return {"as": alias, "kind": "Secret", "namespace": "infra", "selector": labels, **more}


def registries(*sources: dict[str, Any], text: str = "", **metadata: Any) -> dict[str, Any]:
    listed = "([sources.hub] + sources.private)" if len(sources) > 1 else "sources.hub"
    return {
        "sources": list(sources),
        "template": {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": TYPE,
            "metadata": {"name": "registries", **metadata},
            "data": {
                ".dockerconfigjson": text or f"{{{{ {listed} | merge_dockerconfig | b64encode }}}}"
            },
        },
        **SPACES,
    }


def hosts(cluster, namespace: str) -> list[str] | None:
    found = cluster.found("secrets", namespace, "registries")
    if found is None:
        return None
    return sorted(json.loads(base64.b64decode(found["data"][".dockerconfigjson"])).get("auths", ()))


def reads(cluster) -> Counter[str]:
    return Counter(
        seen.path.rsplit("/", 1)[-1] for seen in cluster.of("get") if "infra/secrets/" in seen.path
    )


def stage(cluster) -> None:
    for name in ("infra", *TARGETS):
        cluster.namespace(name)
    pull(cluster, "hub", hub_io="a")


@pytest.fixture(params=["the same everywhere", "by namespace"])
def labels(request) -> dict[str, Any]:
    """Metadata of a template that depends on the namespace, or doesn't."""
    return (
        {} if request.param == "the same everywhere" else {"labels": {"of": "{{ namespace.name }}"}}
    )


async def served(cluster, labels) -> None:
    stage(cluster)
    pull(cluster, "one", one_io="b")
    pull(cluster, "two", two_io="c")
    make_rule(cluster, "r", registries(secret("hub"), selected(), **labels))
    await until(lambda: reason(cluster, "r") == "Synced", "synced")


async def test_each_source_is_read_once_and_each_copy_written_once(cluster, operator, labels):
    await served(cluster, labels)
    await operator.settled()
    assert {hosts(cluster, name) == ["hub.io", "one.io", "two.io"] for name in TARGETS} == {True}
    assert reads(cluster) == {"hub": 1, "one": 1, "two": 1}
    written = [verb for verb, path in cluster.writes("secrets") if "/team-" in path]
    assert written == ["create"] * len(TARGETS)
    assert counts(cluster, "r")["ready"] == len(TARGETS)


async def test_a_change_of_any_source_is_read_once_and_written_once(cluster, operator, labels):
    await served(cluster, labels)
    await operator.settled()
    for change in ("hub", "two"):
        cluster.seen.clear()
        host = f"{change}-new.io"
        pull(cluster, change, **{host: "d"})
        await until(lambda host=host: all(host in (hosts(cluster, t) or ()) for t in TARGETS))
        await operator.settled()
        assert reads(cluster) == {"hub": 1, "one": 1, "two": 1}
        assert [verb for verb, _ in cluster.writes("secrets")] == ["update"] * len(TARGETS)


async def test_after_a_restart_only_sources_are_read_and_nothing_is_written(
    cluster, operator, labels
):
    await served(cluster, labels)
    await operator.settled()
    await operator.stop()
    cluster.seen.clear()
    again = Operator(cluster)
    await again.start()
    await again.settled(1.5)
    assert reads(cluster) == {"hub": 1, "one": 1, "two": 1}
    assert cluster.writes("secrets") == []
    await again.stop()


async def test_a_change_that_changes_no_copy_writes_nothing(cluster, operator):
    await served(cluster, {})
    await operator.settled()
    cluster.seen.clear()
    pull(cluster, "two", metadata={"labels": {"registry": "yes", "more": "yes"}}, two_io="c")
    await until(lambda: reads(cluster)["two"] == 1)
    await operator.settled()
    assert cluster.writes("secrets") == []


async def test_new_and_healed_targets_of_a_second_share_a_reading(cluster, operator, labels):
    await served(cluster, labels)
    await operator.settled(composer.HELD_SECONDS + 0.5)
    (binding,) = operator.controller._context.index.of_rule(f"{HOME}/r").values()
    composition = binding.composition
    assert composition.reading is None, "nothing is held while nothing is due"
    assert operator.controller._context.shares.of(None).bytes == 0
    cluster.seen.clear()
    for name in ("team-x", "team-y", "team-z"):
        cluster.namespace(name)
    cluster.gone("secrets", TARGETS[0], "registries")
    cluster.gone("secrets", TARGETS[1], "registries")
    await until(lambda: all(hosts(cluster, t) for t in (*TARGETS, "team-x", "team-y", "team-z")))
    await operator.settled()
    assert reads(cluster) == {"hub": 1, "one": 1, "two": 1}
    assert sorted(verb for verb, _ in cluster.writes("secrets")) == ["create"] * 5


async def test_a_missing_source_leaves_the_copies_until_it_is_back(cluster, operator):
    await served(cluster, {})
    cluster.gone("secrets", "infra", "hub")
    await until(lambda: reason(cluster, "r") == "SourceNotFound")
    cluster.seen.clear()
    cluster.gone("secrets", TARGETS[0], "registries")
    await operator.settled()
    assert cluster.writes("secrets") == []
    assert hosts(cluster, TARGETS[1]) == ["hub.io", "one.io", "two.io"]
    assert counts(cluster, "r")["ready"] == len(TARGETS), "as they were counted last"
    message = ready_of(cluster, "r")["message"]
    assert "sources.hub" in message
    assert "infra/hub" in message
    pull(cluster, "hub", x_io="a")
    await until(lambda: all("x.io" in (hosts(cluster, t) or ()) for t in TARGETS))
    await until(lambda: reason(cluster, "r") == "Synced")


async def test_a_source_is_never_written_and_copies_are_never_sources(cluster, operator):
    """The rule's own copy in infra would be one of the objects that its selector matches."""
    stage(cluster)
    pull(cluster, "one", one_io="b")
    spec = registries(secret("hub"), selected(), labels={"registry": "yes"})
    spec["targets"] = {"namespaces": ["team-*", "infra"]}
    make_rule(cluster, "r", spec)
    await until(lambda: reason(cluster, "r") == "Synced")
    assert hosts(cluster, "infra") == ["hub.io", "one.io"]
    await operator.settled()
    cluster.seen.clear()
    await operator.settled()
    assert cluster.writes("secrets") == []
    spec["template"]["metadata"]["name"] = "one"
    before = cluster.found("secrets", "infra", "one")
    make_rule(cluster, "r", spec)
    await until(lambda: len(cluster.copies("secrets", "one")) == len(TARGETS))
    await operator.settled()
    assert cluster.found("secrets", "infra", "one") == before


async def test_too_many_and_too_large_sources_change_nothing(cluster, operator, monkeypatch):
    await served(cluster, {})
    await operator.settled()
    monkeypatch.setattr(composer, "COMPOSED_BYTES", 2_000)
    cluster.seen.clear()
    pull(cluster, "big", **{f"host-{n}.io": "d" for n in range(60)})
    await until(lambda: reason(cluster, "r") == "TooLarge")
    await operator.settled()
    assert cluster.writes("secrets") == []
    cluster.gone("secrets", "infra", "big")
    await until(lambda: reason(cluster, "r") == "Synced")
    for number in range(500):
        pull(cluster, f"n-{number}", one_io="b")
    await until(lambda: reason(cluster, "r") == "TooLarge")


async def test_the_status_says_what_the_copies_are_made_from_and_what_is_not_used(
    cluster, operator
):
    stage(cluster)
    pull(cluster, "one", hub_io="other", one_io="b")
    pull(cluster, "soon")
    make_rule(cluster, "r", registries(secret("hub"), selected()))

    async def says(**parts: Any) -> None:
        found = lambda: {name: status_of(cluster, "r").get(name) for name in parts}  # noqa: E731
        await until(lambda: found() == parts, f"{parts}")

    lost = {"host": "hub.io", "source": "private (infra/one)", "by": "hub (infra/hub)"}
    empty = {"source": "private (infra/soon)", "reason": "has no credentials"}
    await says(composedOf="hub, private (2)", overridden=[lost], passedOver=[empty])
    pull(cluster, "one", one_io="b")
    pull(cluster, "soon", two_io="c")
    await says(composedOf="hub, private (2)", overridden=None, passedOver=None)
    cluster.gone("secrets", "infra", "hub")
    await says(composedOf="hub (missing), private (2)")


async def test_a_broken_source_is_named_and_the_copies_stay(cluster, operator):
    await served(cluster, {})
    cluster.object(
        "secrets",
        "infra",
        "two",
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": b64("hunter2")},
        metadata={"labels": {"registry": "yes"}},
    )
    await until(lambda: is_failing(cluster, "r"))
    status = status_of(cluster, "r")
    failure = status["failures"][0]
    assert failure["reason"] == "TemplateError"
    assert "private (infra/two)" in failure["message"]
    assert "hunter2" not in json.dumps(status)
    assert hosts(cluster, TARGETS[0]) == ["hub.io", "one.io", "two.io"]


async def test_a_rule_that_ends_takes_its_copies_with_it_without_reading_sources(cluster, operator):
    await served(cluster, {})
    await operator.settled()
    cluster.seen.clear()
    cluster.gone("copyrators", HOME, "r")
    await until(lambda: cluster.copies("secrets", "registries") == [])
    await until(lambda: cluster.found("copyrators", HOME, "r") is None)
    assert reads(cluster) == {}


async def test_many_names_share_a_watch(cluster, operator):
    stage(cluster)
    many = [f"s-{number}" for number in range(10)]
    for name in many:
        pull(cluster, name, **{f"{name}.io": "x"})
    sources = [secret(name, alias=name.replace("-", "_")) for name in many]
    spec = registries(*sources)
    listed = ", ".join(f"sources.{entry['as']}" for entry in sources)
    spec["template"]["data"][".dockerconfigjson"] = (
        f"{{{{ [{listed}] | merge_dockerconfig | b64encode }}}}"
    )
    make_rule(cluster, "r", spec)
    await until(lambda: reason(cluster, "r") == "Synced")
    watches = [spec for spec in operator.pool.specs() if spec.namespace == "infra"]
    assert len(watches) == 5
    assert all(watch.metadata_only for watch in watches)
    pull(cluster, many[-1], new_io="x")
    await until(lambda: all("new.io" in (hosts(cluster, t) or ()) for t in TARGETS))


async def test_a_certificate_that_ends_is_dropped_without_any_change(cluster, operator):
    def certificate(name: str, seconds: float) -> str:
        now = datetime.now(UTC)
        return self_signed(
            name, begins=now - timedelta(days=1), ends=now + timedelta(seconds=seconds)
        )

    lasting = certificate("lasting", 9_999)
    cluster.namespace("team-00")
    cluster.object("configmaps", HOME, "cas", data={"ca.crt": lasting})
    text = "{{ sources.cas | pem_bundle(drop_expired=true, key='ca.crt') }}"
    spec = {
        "sources": [{"as": "cas", "kind": "ConfigMap", "name": "cas"}],
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "bundle"},
            "data": {"ca.crt": text},
        },
        **SPACES,
    }
    make_rule(cluster, "r", spec)

    def bundle() -> str | None:
        found = cluster.found("configmaps", "team-00", "bundle")
        return found and found["data"]["ca.crt"]

    await until(lambda: bundle() == lasting)
    await operator.settled()
    ending = certificate("ending", 4)
    cluster.object("configmaps", HOME, "cas", data={"ca.crt": ending + lasting})
    await until(lambda: bundle() == ending + lasting)
    await until(lambda: bundle() == lasting)
    await operator.settled()
    written = [verb for verb, path in cluster.writes("configmaps") if "team-00" in path]
    assert written == ["create", "update", "update"]


def certificate(name: str, days: int = 100) -> str:
    now = datetime.now(UTC)
    return self_signed(name, begins=now - timedelta(days=500), ends=now + timedelta(days=days))


async def test_the_public_cas_are_those_of_a_file_that_is_read_at_the_start(cluster, tmp_path):
    """A missing file, one that appears, a restart with the same one, and one with other CAs."""
    mine, old, new, ended = map(certificate, ("mine", "old", "new", "ended"), (99, 1, 1, -1))
    file = tmp_path / "cas.crt"
    cluster.namespace("team-00")
    cluster.object("configmaps", HOME, "cas", data={"ca.crt": mine})
    listed = "[sources.public, sources.mine]"
    forms = {
        one: f"{{{{ {listed} | {one}(key='ca.crt') | b64encode }}}}" for one in ("jks", "pkcs12")
    }
    metadata = {"name": "bundle"}
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": forms}
    template["data"] = {"ca.crt": f"{{{{ {listed} | pem_bundle(key='ca.crt') }}}}"}
    own = {"as": "mine", "kind": "ConfigMap", "name": "cas"}
    spec = {"sources": [{"as": "public", "defaultCAs": True}, own], "template": template, **SPACES}
    make_rule(cluster, "r", spec)

    @asynccontextmanager
    async def operating() -> AsyncIterator[Operator]:
        running = Operator(
            cluster, timing=replace(DEFAULT_TIMING, room_again=0.1), default_cas_file=file
        )
        await running.start()
        yield running
        await running.stop()

    def bundle() -> str | None:
        found = cluster.found("configmaps", "team-00", "bundle")
        return found and found["data"]["ca.crt"]

    def written() -> list[str]:
        return [verb for verb, path in cluster.writes("configmaps") if "team-00" in path]

    async with operating():
        await until(lambda: reason(cluster, "r") == "SourceNotFound")
        message = ready_of(cluster, "r")["message"]
        assert f"sources.public: the public CAs: {file} can't be read: No such file" in message
        assert "set --default-cas-file" in message
        assert not [one for one in cluster.of("get") if one.path.endswith("/configmaps/cas")]
        file.write_text(ended + old)
        await until(lambda: bundle() == ended + old + mine)
        await until(lambda: reason(cluster, "r") == "Synced")
    status = status_of(cluster, "r")
    assert re.fullmatch(r"public \(2 public CAs, sha256:[0-9a-f]{8}\), mine", status["composedOf"])
    assert [one["commonName"] for one in status["certificates"]] == ["mine"]
    assert written() == ["create"]
    if shutil.which("keytool"):
        for form, content in cluster.found("configmaps", "team-00", "bundle")["binaryData"].items():
            (tmp_path / form).write_bytes(base64.b64decode(content))
            command = ["keytool", "-list", "-keystore", tmp_path / form, "-storepass", "changeit"]
            listed_there = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
            shown, _ = await listed_there.communicate()
            assert shown.count(b"trustedCertEntry") == 3
    async with operating() as operator:
        await operator.settled(1.5)
    assert written() == ["create"]
    file.write_text(new)
    make_rule(cluster, "s", {**spec, "template": template | {"metadata": {"name": "second"}}})
    async with operating() as operator:
        await until(lambda: bundle() == new + mine)
        await until(lambda: status_of(cluster, "r")["composedOf"] != status["composedOf"])
        await until(lambda: reason(cluster, "s") == "Synced")
        await operator.settled()
        bindings = (
            composer.binding_of(operator.controller._context, f"{HOME}/{name}") for name in "rs"
        )
        assert len({id(one.composition.public_cas) for one in bindings}) == 1
    assert sorted(written()) == ["create", "create", "update"]


def test_a_public_ca_with_a_negative_serial_number_is_no_line_in_the_log(tmp_path):
    """Debian has one; cryptography warns of it on the standard error."""
    content = bytearray(ssl.PEM_cert_to_DER_cert(certificate("a")))
    content[content.index(bytes.fromhex("a00302010202")) + 7] = 0x80
    (tmp_path / "cas.crt").write_text(ssl.DER_cert_to_PEM_cert(bytes(content)))
    code = "from pathlib import Path; from copyrator.copies.composed.public_cas import *"
    code += "; read_public_cas(Path('cas.crt'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stderr == b""


async def test_whatever_happens_the_copies_end_right_and_nothing_stays_held(cluster, operator):
    """Sources, namespaces and copies change all the time, some of them at once."""
    chance = random.Random(25)
    stage(cluster)
    make_rule(
        cluster,
        "r",
        registries(secret("hub"), selected(optional=True), labels={"of": "{{ namespace.name }}"}),
    )
    for step in range(60 if LONG else 30):
        what = chance.randrange(5)
        if what == 0:
            pull(cluster, f"s-{chance.randrange(4)}", **{f"h{step}.io": "x"})
        elif what == 1 and cluster.found("secrets", "infra", name := f"s-{chance.randrange(4)}"):
            cluster.gone("secrets", "infra", name)
        elif what == 2:
            cluster.namespace(f"team-x{chance.randrange(5)}", step=str(step))
        elif what == 3 and cluster.found("secrets", target := chance.choice(TARGETS), "registries"):
            cluster.gone("secrets", target, "registries")
        else:
            pull(cluster, "hub", **{f"hub{step}.io": "a"})
        await asyncio.sleep(chance.random() * 0.1)

    def wanted() -> list[str]:
        names = ["hub", *(f"s-{number}" for number in range(4))]
        found = [cluster.found("secrets", "infra", name) for name in names]
        texts = [base64.b64decode(one["data"][".dockerconfigjson"]) for one in found if one]
        return sorted(host for text in texts for host in json.loads(text)["auths"])

    spaces = [
        *TARGETS,
        *(f"team-x{n}" for n in range(5) if f"/api/v1/namespaces/team-x{n}" in cluster.objects),
    ]
    await until(lambda: all(hosts(cluster, space) == wanted() for space in spaces))
    await until(lambda: reason(cluster, "r") == "Synced")
    await operator.settled(composer.HELD_SECONDS + 0.5)
    assert counts(cluster, "r")["ready"] == len(spaces)
    assert operator.controller._context.shares.of(None).bytes == 0
    cluster.seen.clear()
    await operator.settled()
    assert cluster.writes("secrets") == []


@pytest.mark.parametrize("first", ["composed", "plain"])
async def test_another_rule_never_overwrites_a_source(cluster, operator, first):
    stage(cluster)
    cluster.object("secrets", HOME, "hub", type="Opaque", data={"other": b64("x")})
    before = cluster.found("secrets", "infra", "hub")
    plain = {
        "source": {"kind": "Secret", "name": "hub"},
        "targets": {"namespaces": ["infra"]},
        "onConflict": "Overwrite",
    }
    specs = {"composed": registries(secret("hub")), "plain": plain}
    make_rule(cluster, first, specs.pop(first))
    if first == "composed":
        await until(lambda: reason(cluster, "composed") == "Synced")
    else:
        await until(lambda: reason(cluster, "plain") == "Synced")
        cluster.object("secrets", HOME, "hub", type="Opaque", data={"other": b64("y")})
    for name, spec in specs.items():
        make_rule(cluster, name, spec)
    if first == "composed":
        await until(lambda: is_failing(cluster, "plain"))
        assert cluster.found("secrets", "infra", "hub") == before
    else:  # it is a copy by now, which is never a source
        await until(lambda: reason(cluster, "composed") == "SourceNotFound")


async def test_every_source_must_allow_the_target(cluster, operator):
    stage(cluster)
    pull(cluster, "one", one_io="b")

    def allow(namespaces: str) -> None:
        annotations = {"copyrator.flant.com/allow-to": namespaces}
        pull(cluster, "two", metadata={"annotations": annotations}, two_io="c")

    allow("team-00,team-01")
    make_rule(cluster, "r", registries(secret("hub"), selected()))
    await until(lambda: cluster.copies("secrets", "registries") == TARGETS[:2])
    await until(lambda: reason(cluster, "r") == "Synced")
    allow("team-00")
    await until(lambda: cluster.copies("secrets", "registries") == TARGETS[:1])
