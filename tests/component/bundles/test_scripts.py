"""The script of uninstall Jobs, with what werf 2 and 3 print (docs/facts/werf.md)."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.plan_jobs import Pod

from copyrator.bundles.jobs.job import LOGIN_SCRIPT, UNINSTALL_SCRIPT
from copyrator.bundles.jobs.script import uninstall_command
from copyrator.bundles.plans.script import PlanExit
from copyrator.oci.auth import find_credential
from copyrator.oci.exchange import Repository

WERF = """\
#!/bin/sh
if [ "$1" = version ]; then
  /bin/cat "$FAKE/version"
  exit "$VERSION_CODE"
fi
printf '%s\\n' "$*" "pid $$" >"$FAKE/ran"
/bin/cat "$FAKE/output" >&2
if [ -e "$FAKE/begun" ]; then
  [ "$1" = dismiss ] || trap '' TERM
  : >"$FAKE/begun"
  read -r _ <"$FAKE/go"
fi
exit "$WERF_CODE"
"""
HELM = "helm uninstall shop --namespace app --wait --timeout 600s"
DISMISS = "dismiss --namespace app --release shop"
USER = 'User "system:serviceaccount:team:werf" cannot'
CORE = 'in API group "" in the namespace "app"'


@pytest.fixture
def pod(pod: Pod) -> Pod:
    (pod.bin / "werf").write_text(WERF)
    target = "busybox" if "busybox" in pod.shell[0] else "tee"
    (pod.bin / "tee").symlink_to(str(shutil.which(target)))
    (pod.bin / "git").symlink_to("/bin/true")
    pod.more = {"WERF_RELEASE": "shop", "WERF_NAMESPACE": "app", "WERF_TIMEOUT": "600"}
    return pod


def start(pod: Pod, version: str, code: int = 0, output: str = "") -> subprocess.Popen[str]:
    (pod.fake / "version").write_text(version + "\n")
    (pod.fake / "output").write_text(output)
    codes = {"WERF_CODE": str(code), "VERSION_CODE": pod.more.get("VERSION_CODE", "0")}
    return subprocess.Popen(
        [*pod.shell, "-c", UNINSTALL_SCRIPT],
        env=pod.environment() | codes,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def uninstall(pod: Pod, version: str, code: int = 0, output: str = "") -> tuple[int, str]:
    with start(pod, version, code, output) as process:
        log, _ = process.communicate(timeout=60)
    return process.returncode, log


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("v2.75.3", HELM),
        ("2", HELM),
        ("v1.2.300", HELM),
        ("v3.2.0", DISMISS),
        ("3", DISMISS),
        ("v10.1.0", DISMISS),
        ("dev", None),
        ("", None),
    ],
)
def test_the_program_tells_its_version_whatever_the_images_tag_is(
    pod: Pod, version: str, command: str | None
) -> None:
    code, log = uninstall(pod, version)

    assert (pod.told("ran")[:1], code) == (([command], 0) if command else ([], 1))
    refused = f"Error: unknown version of werf, {version}: use a released one in spec.werf.image\n"
    assert (log == refused) is (command is None)


def test_a_werf_that_tells_no_version_is_not_run(pod: Pod) -> None:
    pod.more["VERSION_CODE"] = "3"

    assert uninstall(pod, "v2.75.3")[0] == 3
    assert pod.told("ran") == []


@pytest.mark.parametrize("version", ["v2.75.3", "v3.2.0"])
def test_in_another_cluster_it_has_the_kubeconfig_that_was_checked(pod: Pod, version: str) -> None:
    sealed = pod.sealed("kubeconfig", b"theirs")
    (pod.bin / "werf").write_text(WERF.replace("printf", '/usr/bin/env >"$FAKE/env"\nprintf'))
    pod.more |= {"WERF_KUBE_CONFIG_BASE64": "bWluZQ==", "KUBECONFIG": "/mine"}
    (pod.fake / "version").write_text(version + "\n")
    (pod.fake / "output").write_text("")

    def run() -> subprocess.CompletedProcess[str]:
        command = pod.command(uninstall_command(UNINSTALL_SCRIPT, sealed))
        env = pod.environment() | {"WERF_CODE": "0", "VERSION_CODE": "0"}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert run().returncode == 0
    env = pod.told("env")
    assert {f"WERF_KUBE_CONFIG={sealed.copy}", f"KUBECONFIG={sealed.copy}"} < set(env)
    assert not any(one.startswith("WERF_KUBE_CONFIG_BASE64=") for one in env)
    assert Path(sealed.copy).read_bytes() == b"theirs"

    (pod.fake / "ran").unlink()
    Path(sealed.path).write_bytes(b"forged")
    ended = run()
    assert (ended.returncode, pod.told("ran")) == (PlanExit.CHANGED, [])
    assert f"{sealed.path} isn't what was planned with" in ended.stdout + ended.stderr


NOT_LOADED = "Error: uninstall: Release not loaded: shop:"
FORBIDDEN = f'secrets is forbidden: {USER} list resource "secrets" {CORE}'
OF_3 = "Error: release uninstall:"


@pytest.mark.parametrize(
    ("version", "werf", "output", "code"),
    [
        ("v2.75.3", 0, 'release "shop" uninstalled\n', 0),
        # The release is gone, or its namespace.
        ("v2.75.3", 1, f"{NOT_LOADED} release: not found\n", 0),
        # Without permissions it isn't known to be gone.
        ("v2.75.3", 1, f"{NOT_LOADED} query: failed to query with labels: {FORBIDDEN}\n", 1),
        ("v2.75.3", 1, 'Error: uninstall: failed to delete release: "shop"\n', 1),
        ("v2.75.3", 1, "Error: release: namespace not found\n", 1),
        ("v2.75.3", 1, "Error: uninstall: pre-delete hooks failed: timed out\n", 1),
        ("v2.75.3", 137, "", 137),
        ("v3.2.0", 0, 'Uninstalled release "shop" (namespace: "app")\n', 0),
        ("v3.2.0", 0, 'Skipped release "shop" uninstall: no release found\n', 0),
        ("v3.2.0", 0, 'Skipped release "shop" uninstall: no release namespace "app" found\n', 0),
        ("v3.2.0", 1, f"{OF_3} build release history: {FORBIDDEN}\n", 1),
        ("v3.2.0", 1, f"{OF_3} lock release: release: not found\n", 1),  # werf 2's words
        ("v3.2.0", 1, f"{OF_3} context timed out: action timed out after 10m0s\n", 1),
        ("v3.2.0", 137, "", 137),
    ],
)
def test_a_release_that_is_gone_is_uninstalled_and_other_errors_are_werfs(
    pod: Pod, version: str, werf: int, output: str, code: int
) -> None:
    assert uninstall(pod, version, werf, output) == (code, output)


@pytest.mark.parametrize(("version", "code"), [("v3.2.0", 1), ("v2.75.3", 0)])
def test_werf_3_needs_git(pod: Pod, version: str, code: int) -> None:
    (pod.bin / "git").unlink()

    found, log = uninstall(pod, version)

    assert found == code
    said = f"Error: werf {version} needs git to uninstall, and this image has none\n"
    assert (log == said, pod.told("ran") == []) == (code == 1, code == 1)


@pytest.mark.parametrize("version", ["v2.75.3", "v3.2.0"])
def test_a_pod_that_is_ended_ends_at_once_and_its_log_is_there_before(
    pod: Pod, version: str
) -> None:
    """werf 2 ignores the signal while it waits for deletions; werf 3 gets it itself."""
    begun, go = pod.fake / "begun", pod.fake / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    with start(pod, version, output="waits for deployments/d\n") as process:
        begun.read_bytes()
        assert process.stdout is not None
        assert process.stdout.readline() == "waits for deployments/d\n"

        process.send_signal(signal.SIGTERM)

        code = process.wait(timeout=60)
        if version == "v2.75.3":
            go.write_text("on\n")  # in a container it ends with the shell
    is_werf = f"pid {process.pid}" in pod.told("ran")
    assert (code, is_werf) == ((143, False) if version == "v2.75.3" else (-15, True))


# --- The script of a Job's login: werf gets the user name and password that polls use


LOGIN_WERF = """\
#!/bin/sh
printf '%s' "$*" >"$FAKE/asked"
printf '%s' "$WERF_USERNAME" >"$FAKE/username"
printf '%s' "$WERF_PASSWORD" >"$FAKE/password"
exit 3
"""


@pytest.mark.parametrize(
    "written",
    [
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
    (pod.bin / "werf").write_text(LOGIN_WERF)
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
