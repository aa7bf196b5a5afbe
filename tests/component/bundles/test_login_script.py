"""The script of a Job's login: werf gets the user name and password that polls use."""

from __future__ import annotations

import base64
import subprocess

import pytest
from tests.plan_jobs import Pod

from copyrator.bundles.jobs.job import LOGIN_SCRIPT
from copyrator.oci.auth import find_credential
from copyrator.oci.exchange import Repository

WERF = """\
#!/bin/sh
printf '%s' "$*" >"$FAKE/asked"
printf '%s' "$WERF_USERNAME" >"$FAKE/username"
printf '%s' "$WERF_PASSWORD" >"$FAKE/password"
exit 3
"""


@pytest.fixture
def pod(pod: Pod) -> Pod:
    (pod.bin / "werf").write_text(WERF)
    return pod


@pytest.mark.parametrize(
    "written",
    [
        "secret",
        "secret\n",
        "secret\r\n",
        "secret \n",
        "secret\n\n",
        "secret\r",
        "secret ",
        " secret",
        "\nsecret",
        "\\n$(id)`id`'\"*%s\\",
    ],
)
def test_a_login_gets_what_polls_use(pod: Pod, written: str) -> None:
    data = {key: base64.b64encode(written.encode()).decode() for key in ("username", "password")}
    polls = find_credential({"data": data}, Repository("r.example", "app")).credential

    done = subprocess.run(
        [*pod.shell, "-c", LOGIN_SCRIPT, "sh", "r.example"],
        env=pod.environment() | {"WERF_USERNAME": written, "WERF_PASSWORD": written},
        check=False,
        capture_output=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b""), "werf's own, and no output"
    assert (pod.fake / "asked").read_text() == "cr login r.example"
    got = [(pod.fake / name).read_bytes().decode() for name in ("username", "password")]
    assert got == [polls.username, polls.password]
