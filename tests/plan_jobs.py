"""Runs the scripts of plan and deploy Jobs in the shells that images have, with a werf of ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest
from tests.long import LONG

from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.operations import Operation, OperationType, RenderedObjects
from copyrator.bundles.plans.script import StoredComparison, deploy_command, plan_command

NONCE = "0123456789abcdef" * 2
HANG = 300
"""Seconds after which a script counts as hanging, also on busy cores."""
TOOLS = ("grep", "sed", "sort", "wc", "sha256sum")
SAVING_TOOLS = ("gzip", "head", "tail", "od")
"""Of images whose werf saves plans."""
GUARD = "shop.guard"
"""The policy of guarded Jobs."""
DENIED = (
    'error: failed to create {0}: {0}s "guard-probe" is forbidden: ValidatingAdmissionPolicy '
    f"'{GUARD}' with binding '{GUARD}' denied request: not approved: CREATE"
)
SHELLS = {"sh": ("sh",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}
RECORDED = Path(__file__).parents[1] / "docs" / "facts" / "werf-plan-graph.dot"
"""Of the real werf: a first install of four objects."""
DOCUMENTS = """\
---
# Source: shop/templates/cm.yaml
apiVersion: v1
data:
  password: hunter3
kind: ConfigMap
metadata:
  name: cm
"""
OBJECTS = RenderedObjects(frozenset({"::ConfigMap:cm"}))
"""Of these documents."""
WERF = """\
#!/bin/sh
case "$*" in
"bundle plan --save-plan "*" --help" | "bundle apply --use-plan "*" --help")
  [ ! -e "$FAKE/saved" ] || exit 0
  echo "Error: unknown flag: $3"
  exit 1
  ;;
esac
if [ "$*" = "bundle render" ]; then
  [ "${WERF_VALIDATE-}" = 1 ] || exit 7
  [ ! -e "$FAKE/while-rendering" ] || . "$FAKE/while-rendering"
  echo x >>"$FAKE/renders"
  number=$(/bin/cat "$FAKE/renders" | /usr/bin/wc -l)
  if [ -e "$FAKE/render.$number" ]; then
    /bin/cat "$FAKE/render.$number"
  else
    /bin/cat "$FAKE/render"
  fi
  printf 'password: hunter4\\nError: first\\nError: chart says no\\nUse --debug\\n' >&2
  exit "$RENDER_CODE"
fi
if [ "$1 $2 ${3-}" = "bundle plan --exit-code" ]; then
  [ ! -e "$FAKE/output" ] || /bin/cat "$FAKE/output"
  [ ! -e "$FAKE/graph" ] || /bin/cat "$FAKE/graph" >"$WERF_DEPLOY_GRAPH_PATH"
  if [ "${4-}" = --save-plan ]; then
    [ ! -e "$5" ] || exit 8
    echo x >>"$FAKE/saves"
    number=$(/bin/cat "$FAKE/saves" | /usr/bin/wc -l)
    [ ! -e "$FAKE/saved.$number" ] || /bin/cat "$FAKE/saved.$number" >"$5"
    [ -e "$5" ] || /bin/cat "$FAKE/saved" >"$5"
  fi
  if [ -e "$FAKE/begun" ]; then
    : >"$FAKE/begun"
    read -r _ <"$FAKE/go"
  fi
  [ "$PLAN_CODE" -ne 137 ] || kill -KILL $$
  exit "$PLAN_CODE"
fi
case "$*" in
"kubectl auth can-i "*" events --namespace default --request-timeout 10s")
  [ "$WERF_SKIP_TLS_VERIFY_REGISTRY" = 0 ] || exit 9
  echo "$4" >>"$FAKE/asked"
  answer=yes
  [ ! -e "$FAKE/may-$4" ] || answer=$(/bin/cat "$FAKE/may-$4")
  echo "$answer"
  [ "$answer" = yes ] || { echo "exit status 1" >&2; exit 1; }
  exit 0
  ;;
"kubectl create "*" guard-probe --namespace app --dry-run=server --validate=false "*)
  [ "$WERF_SKIP_TLS_VERIFY_REGISTRY" = 0 ] || exit 9
  echo "$3" >>"$FAKE/probes"
  number=$(/bin/cat "$FAKE/probes" | /usr/bin/wc -l)
  answer=$FAKE/probe
  [ ! -e "$FAKE/probe.$number" ] || answer=$FAKE/probe.$number
  [ -e "$answer" ] || { echo "$3/guard-probe created (server dry run)"; exit 0; }
  /bin/cat "$answer" >&2
  exit 1
  ;;
esac
case "$*" in
"helm get "*)
  [ "$4 $5 $6 $7" = "shop --namespace app --revision" ] || exit 9
  echo "$3 $8" >>"$FAKE/gets"
  [ -e "$FAKE/$3.$8" ] || { echo "Error: release: not found" >&2; exit 1; }
  exec /bin/cat "$FAKE/$3.$8"
  ;;
"version") exec /bin/cat "$FAKE/version" ;;
"rollback "*)
  echo "$*" >>"$FAKE/rolled-back"
  /bin/cat "$WERF_DEPLOY_REPORT_PATH" >"$FAKE/reported"
  exit 1
  ;;
esac
[ ! -e "$FAKE/while-applying" ] || . "$FAKE/while-applying"
printf '%s\\n' "${KUBEDOG_DISABLE_EVENTS-unset}" >"$FAKE/tracked"
/usr/bin/env >"$FAKE/env"
said="$*"
if [ "${3-}" = --use-plan ]; then
  /bin/cat "$4" >"$FAKE/used"
  said="$1 $2 --use-plan"
fi
printf '%s\\n' "$said" "graph ${WERF_DEPLOY_GRAPH_PATH-unset}" "$LC_ALL" "pid $$" >"$FAKE/applied"
exit "$APPLY_CODE"
"""


def in_all_shells(metafunc: pytest.Metafunc) -> None:
    """Run a test that has a ``pod`` in all shells.

    One that has cases or examples is run so in `make test-long` only: in `make test` each of them
    has one shell.
    """
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    has_cases = "parametrize" in marks or hasattr(metafunc.function, "hypothesis")
    if "pod" in metafunc.fixturenames and (LONG or not has_cases):
        metafunc.fixturenames.append("shell")
        metafunc.parametrize("shell", SHELLS)


def shell_of(request: pytest.FixtureRequest) -> str:
    """The shell of a test's ``pod``."""
    spec = getattr(request.node, "callspec", None)
    params: dict[str, object] = spec.params if spec else {}
    chosen = params.get("shell") or sorted(SHELLS)[crc32(request.node.name.encode()) % len(SHELLS)]
    return str(chosen)


@dataclass(frozen=True)
class Ended:
    """How a script ended."""

    code: int
    log: str
    pid: int
    applied: list[str]
    """Of ``werf``, if it applied: its arguments, the graph's path, the locale and its pid."""


class Pod:
    """A container's files and its shell."""

    def __init__(self, shell: str, directory: Path) -> None:
        if not all(map(shutil.which, (SHELLS[shell][0], *TOOLS))):
            pytest.skip(f"{shell} or one of {TOOLS} isn't installed")
        self.fake, self.tmp, self.bin = (directory / name for name in ("fake", "tmp", "bin"))
        for each in (self.fake, self.tmp, self.bin):
            each.mkdir(parents=True)
        self.memory = directory / "memory"
        self.home = directory / "home"
        for each in (self.memory, self.home):
            each.mkdir()
        self.documents = DOCUMENTS
        self.account: ServiceAccount | None = None
        self.render_code = 0
        self.unset: str | None = None
        self.more: dict[str, str] = {}
        program, *flags = SHELLS[shell]
        self.shell = [str(shutil.which(program)), *flags]
        for tool in (*TOOLS, *SAVING_TOOLS):
            target = shutil.which("busybox" if shell == "busybox" else tool)
            (self.bin / tool).symlink_to(str(target))
        (self.bin / "werf").write_text(WERF)
        (self.bin / "werf").chmod(0o755)

    def environment(self, plan: int = 2, apply: int = 0) -> dict[str, str]:
        found = {
            "PATH": str(self.bin),
            "TMPDIR": str(self.tmp),
            "FAKE": str(self.fake),
            "PLAN_CODE": str(plan),
            "APPLY_CODE": str(apply),
            "RENDER_CODE": str(self.render_code),
            "HOME": str(self.home),
            **self.more,
        }
        return {name: value for name, value in found.items() if name != self.unset}

    def command(self, command: Sequence[str]) -> list[str]:
        """A container's command after Kubernetes has expanded it."""
        assert command[:2] == ("sh", "-c")
        return [*self.shell, "-c", expanded(command[2]), *command[3:]]

    def run(
        self,
        command: Sequence[str],
        graph: str | bytes | None = None,
        *,
        output: str = "",
        plan: int = 2,
        apply: int = 0,
    ) -> Ended:
        files = {"graph": graph, "output": output}
        files |= dict.fromkeys(("applied", "renders", "probes", "saves", "used"))
        for name, content in (files | {"render": self.documents}).items():
            (self.fake / name).unlink(missing_ok=True)
            if content:
                raw = content.encode() if isinstance(content, str) else content
                (self.fake / name).write_bytes(raw)
        with subprocess.Popen(
            self.command(command),
            env=self.environment(plan, apply),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            log, errors = process.communicate(timeout=HANG)
        assert errors == b"", "all is in one stream"
        text = log.decode("utf-8", "replace")
        return Ended(process.returncode, text, process.pid, self.applied())

    def ended_by_a_signal(self, command: Sequence[str], graph: str) -> Ended:
        """As if the pod were deleted while werf plans."""
        begun, go = self.fake / "begun", self.fake / "go"
        (self.fake / "graph").write_text(graph)
        (self.fake / "render").write_text(self.documents)
        os.mkfifo(begun)
        os.mkfifo(go)
        with subprocess.Popen(
            self.command(command), env=self.environment(), stdout=subprocess.PIPE
        ) as process:
            begun.read_bytes()
            process.send_signal(signal.SIGTERM)
            go.write_text("on\n")
            log, _ = process.communicate(timeout=HANG)
        return Ended(process.returncode, log.decode(), process.pid, self.applied())

    def wrap(self, tool: str, text: str) -> None:
        """Put a script in a tool's place; it may end with the tool itself, ``"$REAL" "$@"``."""
        real = (self.bin / tool).resolve()
        (self.bin / tool).unlink()
        (self.bin / tool).write_text(f"#!/bin/sh\nREAL={real}\n{text}\n")
        (self.bin / tool).chmod(0o755)

    def fail(self, tool: str, call: int, code: int) -> None:
        """Let one call of a tool fail, counted from 1, or none."""
        if not (self.bin / tool).is_symlink():
            (self.bin / tool).unlink()
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        calls = self.fake / f"{tool}.calls"
        calls.unlink(missing_ok=True)
        count = f"n=0; while read -r _; do n=$((n + 1)); done <{calls}"
        self.wrap(
            tool, f'echo >>{calls}; {count}; [ $n -ne {call} ] || exit {code}; exec "$REAL" "$@"'
        )

    def calls(self, tool: str) -> int:
        """How often the tool was called since ``fail``."""
        return len((self.fake / f"{tool}.calls").read_text().splitlines())

    def while_planning(self, command: str) -> None:
        """Let werf's plan do something more."""
        first, line, rest = WERF.partition('--exit-code" ]; then\n')
        (self.bin / "werf").write_text(f"{first}{line}{command}\n{rest}")

    def plan_command(self, values: Sequence[SealedFile] = (), renders: int = 2) -> tuple[str, ...]:
        """The command of a plan Job, with a salt of renders."""
        salt = self.sealed("render-salt", b"r" * 32)
        directory = str(self.memory)
        return plan_command(
            NONCE, salt, values, account=self.account, renders=renders, directory=directory
        )

    def deploy_command(
        self,
        approved: SealedFile,
        values: Sequence[SealedFile] = (),
        flags: Sequence[str] = (),
        guard: str | None = None,
        comparison: StoredComparison | None = None,
    ) -> tuple[str, ...]:
        """The command of the deploy Job of an approved plan, with the same salt."""
        salt = self.sealed("render-salt", b"r" * 32)
        return deploy_command(
            approved,
            salt,
            values,
            flags,
            account=self.account,
            guard=guard,
            comparison=comparison,
            directory=str(self.memory),
        )

    def hash_of(self, documents: str) -> str:
        """The hash of a render that the scripts compute."""
        texts = f"\n{documents}".removesuffix("\n").split("\n---\n")
        marked = (("---\n" + text).replace("\x01", "\x01a") for text in texts[1:])
        lines = sorted(text.replace("\n", "\x01b") for text in marked)
        first = [""] if lines else []
        hashed = "".join(f"{line}\n" for line in (*first, *lines))
        return hashlib.sha256(b"r" * 32 + hashed.encode()).hexdigest()

    def told(self, file: str) -> list[str]:
        """The lines that werf wrote: ``tracked`` has KUBEDOG_DISABLE_EVENTS, ``asked`` verbs."""
        found = self.fake / file
        return found.read_text().splitlines() if found.exists() else []

    def applied(self) -> list[str]:
        return self.told("applied")

    def sealed(self, name: str, content: bytes, salt: bytes = b"s" * 32) -> SealedFile:
        """A file of a Secret, with its right hash."""
        path, salted = self.fake / name, self.fake / f"{name}.salt"
        path.write_bytes(content)
        salted.write_bytes(salt)
        hashed = hashlib.sha256(salt + content).hexdigest()
        return SealedFile(str(path), str(salted), str(self.tmp / name), hashed)


def expanded(text: str) -> str:
    """What Kubernetes makes of a command's text: ``$$`` is ``$``, and no variable is named."""
    parts = text.split("$$")
    assert not any("$" in part for part in parts)
    return "$".join(parts)


def node(operation: Operation | str, iteration: int = 0) -> str:
    """The name of an operation's node."""
    type_, _, ident = str(operation).partition(" ")
    return f"{type_}/1/{iteration}/{ident}"


def graph(nodes: Iterable[str], revision: int | None = 1) -> str:
    """A graph as werf writes it; each operation is followed by tracking, and joined to a stage."""
    start, end = "noop/1/0/stage/install/start", "noop/1/0/stage/install/end"
    chains = [[start, end]]
    if revision is not None:
        chains.append([f"create-release/1/0/app:shop:{revision}", start])
    for each in nodes:
        type_, _, rest = each.partition("/")
        follower = "track-absence" if type_ == OperationType.DELETE else "track-readiness"
        chains.append([start, each, f"{follower}/{rest}", end])
    after: dict[str, dict[str, None]] = {}
    for chain in chains:
        for one, following in zip(chain, [*chain[1:], None], strict=True):
            after.setdefault(one, {}).update({following: None} if following else {})
    lines = ['\trankdir="LR";\n']
    for one, followers in after.items():
        lines.append(f'\t"{one}" [  weight=0 ];')
        lines += [f'\t"{one}" -> "{each}" [  weight=0 ];' for each in followers]
    return "strict digraph {\n\n" + "".join(f"{line}\n\n" for line in lines) + "}\n"
