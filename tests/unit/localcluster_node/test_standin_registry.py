"""Whose login the stand-in for werf finds in a Docker configuration: measured with werf 2.75.3."""

import base64
import json

import pytest

from localcluster.standin.registry import _stored


def auth(password: str = "s3cret") -> dict[str, str]:
    return {"auth": base64.b64encode(f"alice:{password}".encode()).decode()}


ALICE = ("alice", "s3cret")


@pytest.mark.parametrize(
    ("auths", "expected"),
    [
        ({"r:5000": auth()}, ALICE),
        ({"r:5000": {"username": "alice", "password": "s3cret"}}, ALICE),
        ({"r:5000": {**auth(), "username": "alice", "password": "stale"}}, ALICE),
        ({"r:5000": {"auth": auth()["auth"].rstrip("=")}}, ALICE),
        ({"r:5000": {"auth": auth()["auth"] + "\n"}}, ALICE),
        ({"https://r:5000": auth()}, ALICE),
        ({"https://r:5000/v1/": auth()}, ALICE),
        ({"http://r:5000/v2/": auth()}, ALICE),
        ({"r:5000/team": auth()}, ALICE),
        ({"r:5000": auth("s3cret\n")}, ("alice", "s3cret\n")),
        ({"r:5000": {}, "https://r:5000": auth()}, None),
        ({"*:5000": auth()}, None),
        ({"r": auth()}, None),
        ({"R:5000": auth()}, None),
        ({}, None),
    ],
)
def test_the_login_for_a_host(tmp_path, auths, expected):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": auths}))
    assert _stored(path, "r:5000") == expected
