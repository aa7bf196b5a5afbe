"""The state file says what a cluster is made of, and its directory is removed with care."""

from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError
from localcluster.paths import cache_dir, state_root
from localcluster.processes import ProcessId
from localcluster.state import ClusterState, Layout


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    process = ProcessId(17, 4711, "boot")
    state = ClusterState({"etcd": 20001}, False, True, ["--v=4"], {"etcd": process})

    state.save(file)

    assert ClusterState.load(file) == state


def test_no_file_is_no_cluster(tmp_path: Path) -> None:
    assert ClusterState.load(tmp_path / "state.json") is None


@pytest.mark.parametrize("content", ["", "{", "{}", '{"processes": {}, "colour": 1}'])
def test_an_unreadable_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)

    with pytest.raises(LocalClusterError, match=r"(?s)state\.json.*another version"):
        ClusterState.load(file)


def test_removing_takes_only_what_is_ours(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "cluster")
    layout.prepare()
    layout.logs.joinpath("etcd.log").write_text("x")
    (layout.root / "state.tmp").write_text("left by an interrupted save")
    (layout.root / "mine.txt").write_text("x")

    layout.remove()

    assert [entry.name for entry in layout.root.iterdir()] == ["mine.txt"]


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


def test_logs_can_be_kept(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "cluster")
    layout.prepare()
    layout.logs.joinpath("etcd.log").write_text("x")

    layout.remove(keep_logs=True)

    assert [entry.name for entry in layout.root.iterdir()] == ["logs"]
    layout.prepare()  # and the place can be used again


def test_no_empty_logs_are_kept(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "cluster")
    layout.prepare()

    layout.remove(keep_logs=True)

    assert not layout.root.exists()


def test_directories_follow_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COPYRATOR_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/jane")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert cache_dir() == Path("/home/jane/.cache/copyrator")
    assert state_root() == tmp_path / "copyrator"
    monkeypatch.setenv("COPYRATOR_CACHE", str(tmp_path / "cache"))
    assert cache_dir() == tmp_path / "cache"
