"""Mapped paths are found where they are paths, and nowhere else."""

from pathlib import Path

import pytest

from localcluster.node.paths import PathMap, inside, normal

REAL = {
    "/values": Path("/pod/values"),
    "/home/build": Path("/pod/home"),
    "/home/build/.docker": Path("/pod/docker"),
    "/tmp": Path("/tmp/state/pod/tmp"),
}


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/values", "/pod/values"),
        ("/values/x.yaml", "/pod/values/x.yaml"),
        ("--values=/values/x.yaml", "--values=/pod/values/x.yaml"),
        ("/a:/values:/b", "/a:/pod/values:/b"),
        ("@/values/body", "@/pod/values/body"),
        ("file:///values/x", "file:///pod/values/x"),
        ("cat '/values/x' >/values/y", "cat '/pod/values/x' >/pod/values/y"),
        ("${X:-/values}", "${X:-/pod/values}"),
        ("/home/build/.docker/config.json", "/pod/docker/config.json"),
        ("/home/build/.dockerignore", "/pod/home/.dockerignore"),
        ("/tmp/a /tmp/b", "/tmp/state/pod/tmp/a /tmp/state/pod/tmp/b"),
        ("cd /values/../etc", "cd /pod/values/../etc"),
        ("/values$SUFFIX", "/pod/values$SUFFIX"),
    ],
)
def test_a_mapped_path_is_rewritten_once(text: str, rewritten: str) -> None:
    assert PathMap(REAL).rewrite(text) == rewritten


@pytest.mark.parametrize(
    "text",
    [
        "/valuesfile",
        "/values.yaml",
        "/values-old/x",
        "/data/values",
        "./values",
        "~/values",
        "https://host/values",
        "$HOME/values",
        "${HOME}/values",
        "$(pwd)/values",
        "values/x",
        "",
    ],
)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert PathMap(REAL).rewrite(text) == text


def test_nothing_is_mapped_without_mounts() -> None:
    assert PathMap({}).rewrite("/tmp/x") == "/tmp/x"


def test_a_mount_path_is_known_however_it_is_written() -> None:
    assert normal("//values/./sub/") == "/values/sub"
    assert PathMap({"/values/": Path("/real")}).rewrite("/values/x") == "/real/x"


def test_no_path_leads_out_of_a_containers_root() -> None:
    assert inside(Path("/root"), "/../../etc/passwd") == Path("/root/etc/passwd")
