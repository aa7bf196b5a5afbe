"""What `freeze` takes, and what commands say of freezes, as far as the user may read them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from click.testing import CliRunner

from copyrator.bundles.features.freeze.fields import MAX_REASON
from copyrator.bundles.features.freeze.words import freezes_in
from copyrator.bundles.features.freeze.words import gap as gap_of
from copyrator.cli import cli
from copyrator.cli.bundles.freeze import _Until, check
from copyrator.cli.core.beside import beside, read_for
from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.check import Check
from copyrator.cli.view.bundle import BundleView, describe_bundle
from copyrator.cli.view.why_bundle import explain_bundle
from copyrator.kube.client.answers import Page
from copyrator.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from copyrator.kube.resources import CONFIGMAPS, Resource
from copyrator.settings.config import Settings


def test_an_end_is_a_duration_from_now_or_a_time() -> None:
    before = datetime.now(UTC)
    found = _Until().convert("1h30m", None, None)
    assert timedelta(minutes=90) <= found - before < timedelta(minutes=91)
    late = "2036-12-31T19:00:00+01:00"
    assert _Until().convert(late, None, None) == datetime(2036, 12, 31, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tomorrow", "is neither a duration"),
        ("2d", "is neither a duration"),
        ("2036-12-31T18:00:00", "an RFC 3339 time with its zone"),
        ("2036-12-31", "an RFC 3339 time with its zone"),
        ("0s", "isn't in the future"),
        ("2020-01-01T00:00:00Z", "isn't in the future"),
    ],
)
def test_other_ends_are_refused(text: str, says: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        _Until().convert(text, None, None)
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing option '--reason'"),
        (["--reason", " \n "], "--reason is empty"),
        (["--reason", "x" * (MAX_REASON + 1)], f"--reason is longer than {MAX_REASON} characters"),
    ],
)
def test_a_freeze_needs_a_reason(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["freeze", "-n", "team", *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert says in done.output


NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
HERE = Installation(settings=Settings(namespace="home"), namespace="home", found=True)
BUNDLE: dict[str, Any] = {
    "metadata": {"namespace": "team", "name": "shop"},
    "spec": {"registry": "r.example.com", "repo": "app", "project_namespace": "release"},
}


class FakeClient:
    """Namespaces with their annotations, and the ConfigMap's data; None is what may not be read."""

    def __init__(
        self,
        namespaces: dict[str, str | None] | None,
        config: dict[str, str] | None = None,
        denied: ApiError | None = None,
    ) -> None:
        self.denied = denied
        self.namespaces = namespaces
        self.config = config
        self.asked: list[str] = []

    async def get(self, resource: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        self.asked.append(name)
        if resource is CONFIGMAPS:
            assert (namespace, name) == ("home", "copyrator-freeze")
            if self.denied is not None:
                raise self.denied
            if self.config is None:
                raise NotFound
            return {"metadata": {"namespace": "home"}, "data": self.config}
        if self.namespaces is None:
            raise Forbidden("you may not")
        if name not in self.namespaces:
            raise NotFound
        return self.body(name)

    def body(self, name: str) -> dict[str, Any]:
        assert self.namespaces is not None
        value = self.namespaces[name]
        found = {} if value is None else {"operator.werf.dev/freeze": value}
        return {"metadata": {"name": name, "annotations": found}}

    async def list_pages(self, *_: Any, **__: Any) -> Any:
        if self.namespaces is None:
            raise Forbidden("you may not")
        yield Page([self.body(name) for name in self.namespaces], "1")


UNKNOWN = "whether deploys are frozen isn't known: you can't read"


def doctor(client: FakeClient, installation: Installation = HERE) -> Check:
    return asyncio.run(check(client, installation, NOW))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("client", "good", "said"),
    [
        (FakeClient({"a": None}), True, "nothing is frozen"),
        (FakeClient({"a": '{"until": "2026-11-25T12:00:00Z"}'}), True, "nothing is frozen"),
        (FakeClient({"a": "why"}), None, "namespace a is frozen: why"),
        (FakeClient({}, {}), None, "all namespaces are frozen: no reason is given"),
        (FakeClient(None), None, f"{UNKNOWN} the list of Namespaces"),
        (FakeClient(None, {"reason": "x"}), None, "all namespaces are frozen: x"),
    ],
)
def test_doctor_says_what_is_frozen(client: FakeClient, good: bool | None, said: str) -> None:
    found = doctor(client)
    assert (found.what, found.good, found.said) == ("Freeze", good, said)


def test_doctor_fails_where_a_freeze_can_not_be_read_and_names_it_first() -> None:
    found = doctor(FakeClient({"a": "why", "b": "why", "c": "why", "d": "{"}))
    assert found.good is False
    assert found.said.startswith("namespace d is frozen because its annotation")
    assert found.said.endswith("namespace b is frozen: why; and 1 more")


def test_doctor_reads_only_the_namespaces_that_are_served() -> None:
    client = FakeClient({"a": "why", "b": "why"})
    served = Settings(namespace="home", watch_namespaces=("a", "gone"))
    found = doctor(client, Installation(settings=served, namespace="home", found=True))
    assert found.said == "namespace a is frozen: why"
    assert client.asked == ["copyrator-freeze", "a", "gone"]


@pytest.mark.needs("freeze")
def test_what_concerns_a_bundle_is_its_namespace_its_releases_and_all() -> None:
    client = FakeClient({"team": "t", "release": "r", "other": "o"}, {"reason": "a"})
    found = asyncio.run(read_for(client, HERE, BUNDLE))  # type: ignore[arg-type]
    near = beside(BUNDLE, found.values, NOW)
    assert [(one.namespace, one.reason) for one in freezes_in(near)] == [
        ("", "a"),
        ("team", "t"),
        ("release", "r"),
    ]
    assert found.unread == ()
    view = BundleView(BUNDLE, NOW, HERE, near)
    lines = list(explain_bundle(view))
    assert "  freeze: nothing waits, but no deploy would begin: namespace team is frozen: t." in (
        lines
    )


ABSENT = Installation(settings=Settings(namespace="home"), namespace="home")


@pytest.mark.needs("freeze")
@pytest.mark.parametrize(
    ("client", "installation", "gap"),
    [
        (FakeClient(None), HERE, f"{UNKNOWN} Namespace team, Namespace release"),
        (FakeClient({}), HERE, ""),
        (
            FakeClient({}),
            ABSENT,
            f"{UNKNOWN} ConfigMap copyrator-freeze (the operator wasn't found)",
        ),
        (FakeClient({}, {"reason": "a"}), ABSENT, ""),
        (
            FakeClient({}, denied=Forbidden("no")),
            HERE,
            f"{UNKNOWN} ConfigMap home/copyrator-freeze",
        ),
        (
            FakeClient({}, denied=Unreachable("it is gone")),
            HERE,
            f"{UNKNOWN} ConfigMap home/copyrator-freeze (it is gone)",
        ),
    ],
)
def test_what_the_user_may_not_read_is_unknown_and_not_none(
    client: FakeClient, installation: Installation, gap: str
) -> None:
    found = asyncio.run(read_for(client, installation, BUNDLE))  # type: ignore[arg-type]
    assert gap_of(found.unread) == gap
    near = beside(BUNDLE, found.values, NOW)
    view = BundleView(BUNDLE, NOW, installation, near, found.unread)
    told = [line for line in explain_bundle(view) if "unknown" in line]
    assert told == ([f"  freeze: unknown: {gap}."] if gap else [])
    described = [one.value for one in describe_bundle(view) if one.label == "Frozen"]
    assert (f"unknown: {gap}" in described) is bool(gap)
