"""What the stand-in reads of manifests, and what it keeps of that."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.standin import manifests, tools
from localcluster.standin.errors import WerfError
from localcluster.standin.served import SERVER


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What kubectl was given to read; in place of it PyYAML reads it."""
    given: list[str] = []

    def run(_program: str, *_arguments: str, stdin: str) -> tools.Ran:
        given.append(stdin)
        if "broken" in stdin:
            return tools.Ran(1, "", "error: broken")
        return tools.Ran(0, "\n".join(map(json.dumps, yaml.safe_load_all(stdin))), "")

    monkeypatch.setattr(tools, "run", run)
    return given


def text(name: str) -> str:
    return json.dumps({"kind": "ConfigMap", "metadata": {"name": name}})


def names(found: list[list[dict[str, Any]]]) -> list[list[str]]:
    return [[body["metadata"]["name"] for body in bodies] for bodies in found]


def test_what_was_read_is_kept_beside_the_servers_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    monkeypatch.setenv(SERVER, str(tmp_path / "socket"))
    manifests.parsed_folder(tmp_path / "socket").mkdir()
    two = f"{text('b')}\n---\n{text('c')}"
    expected = [["a"], [], ["b", "c"], ["a"]]
    first = manifests.parse_each([text("a"), "", two, text("a")])
    assert names(first) == expected
    assert first[0][0] is not first[3][0], "each may be changed"
    assert len(started) == 1

    first[0][0]["kind"] = "changed"
    assert names(manifests.parse_each([text("a"), "", two, text("a")])) == expected
    assert manifests.parse_each([text("a")])[0][0]["kind"] == "ConfigMap"
    assert len(started) == 1

    assert names(manifests.parse_each([text("d"), text("a")])) == [["d"], ["a"]]
    assert len(started) == 2
    assert text("a") not in started[1]


def test_what_cannot_be_read_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    monkeypatch.setenv(SERVER, str(tmp_path / "socket"))
    manifests.parsed_folder(tmp_path / "socket").mkdir()
    for _ in range(2):
        with pytest.raises(WerfError, match="broken"):
            manifests.parse_each(["broken"])
    assert len(started) == 2


def test_without_a_server_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SERVER, raising=False)
    for _ in range(2):
        assert names(manifests.parse_each([text("a")])) == [["a"]]
    assert len(started) == 2
    assert list(tmp_path.iterdir()) == []
