"""Commands and exit codes."""

from __future__ import annotations

import base64
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from . import settings
from .errors import WerfError

_DRY = ("--dry-run=server", "--validate=false")


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        0 done or skipped; 1 any error; 2 changes planned; 3 only a release to be stored (werf 3).
        A signal n exits with 128 + n.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupted)
    env = settings.process_environment()
    try:
        read(arguments, env)()
    except WerfError as error:
        sys.stdout.flush()
        # Helm names files: a process node gives a container's paths a directory before them.
        root = env.get("TMPDIR", "").rpartition("/")[0]
        said = str(error).replace(root, "") if root else error
        print(f"Error: {said}", file=sys.stderr)
        return error.code
    return 0


def read(arguments: Sequence[str], env: Mapping[str, str]) -> Callable[[], object]:
    """Read a command line with its variables; what is returned carries it out."""
    settings.check_variables(env)
    version = settings.version(env)
    newest = version.startswith("v3")
    if list(arguments) == ["version"]:
        return partial(print, version)
    # 0.1 s of processor time, which no `version` needs.
    from . import deploy, kubectl, registry  # noqa: PLC0415

    match arguments:
        case ["cr", "login", *rest]:
            act: Callable[[], object] = partial(registry.log_in, *settings.parse_login(rest, env))
        case ["bundle", ("apply" | "plan" | "render") as name, *rest]:
            act = _bundle(name, rest, env, newest=newest)
        case ["helm", *rest] if not newest:
            act = _helm(rest)
        case ["rollback", *rest]:
            act = partial(deploy.roll_back, *settings.parse_rollback(rest, env))
        case ["kubectl", "auth", "can-i", verb, resource, *rest]:
            act = partial(kubectl.answer, verb, resource, _namespace(rest))
        case ["kubectl", "create", ("configmap" | "namespace") as kind, name, *rest]:
            dry = [word for word in rest if word in _DRY]
            if len(dry) != len(_DRY):
                raise WerfError(f"the stand-in creates nothing without {' and '.join(_DRY)}")
            rest = [word for word in rest if word not in _DRY]
            act = partial(kubectl.probe, kind, name, _namespace(rest))
        case ["dismiss", *rest]:
            act = _dismiss(rest, env, newest=newest)
        case _:
            raise _unknown(arguments, newest=newest)
    return partial(_in_its_place, env, act)


def _bundle(
    name: str, rest: Sequence[str], env: Mapping[str, str], *, newest: bool
) -> Callable[[], object]:
    from . import deploy  # noqa: PLC0415

    does, switches, saved = {
        "apply": (deploy.apply, ("--auto-rollback",), ("--use-plan",)),
        "plan": (deploy.plan, ("--exit-code",), ("--save-plan",)),
        "render": (deploy.render, (), ()),
    }[name]
    valued = saved if newest else ()
    if settings.is_help(rest, switches, valued):
        return partial(print, f"Usage:\n  werf bundle {name} [options]")
    return partial(does, settings.parse_deploy(rest, env, switches, valued))


def _helm(arguments: Sequence[str]) -> Callable[[], object]:
    from . import stored, uninstalling  # noqa: PLC0415 - as above

    match arguments:
        case ["uninstall", *rest]:
            switches = ("--wait", "--ignore-not-found")
            valued = ("--namespace", "--timeout")  # which has no effect
            (name,), flags = settings.read_flags(rest, switches, valued, 1)
            namespace = flags.get("--namespace", "default")
            wait, none = (switch in flags for switch in switches)
            return partial(uninstalling.uninstall, name, namespace, wait=wait, or_none=none)
        case ["get", ("manifest" | "hooks") as what, *rest]:
            (name,), flags = settings.read_flags(rest, (), ("--namespace", "--revision"), 1)
            namespace = flags.get("--namespace", "default")
            revision = settings.number(flags, "--revision", 0)
            return partial(stored.get, what, name, namespace, revision)
        case _:
            raise _unknown(["helm", *arguments], newest=False)


def _namespace(arguments: Sequence[str]) -> str:
    """That of kubectl's `auth can-i` and `create`."""
    _, flags = settings.read_flags(arguments, (), ("--namespace", "--request-timeout"), 0)
    return flags.get("--namespace", "default")


def _dismiss(
    arguments: Sequence[str], env: Mapping[str, str], *, newest: bool
) -> Callable[[], object]:
    from . import uninstalling  # noqa: PLC0415 - as above

    if not newest and not Path("werf.yaml").exists():
        # That of werf 2 is for projects: it wants a git work tree and werf.yaml.
        raise WerfError("unable to find project: werf.yaml not found")
    return partial(uninstalling.dismiss, settings.parse_dismiss(arguments, env))


def _unknown(arguments: Sequence[str], *, newest: bool) -> WerfError:
    """The words of Go's cobra for a command that there isn't; it reads the flags before."""
    group, *rest = arguments or [""]
    groups = ("bundle", "cr", "kubectl") if newest else ("bundle", "cr", "helm", "kubectl")
    if group in groups and rest:
        return WerfError(f'unknown command "{rest[0]}" for "werf {group}"')
    flag = next((word for word in rest if word.startswith("-")), "")
    if flag.startswith("--"):
        return WerfError(f"unknown flag: {flag.partition('=')[0]}")
    if flag:
        return WerfError(f"unknown shorthand flag: {flag[1:2]!r} in {flag}")
    return WerfError(f'unknown command "{group}" for "werf"')


def _in_its_place(env: Mapping[str, str], act: Callable[[], object]) -> None:
    """Do what werf does before each command, and fail where it does in a restricted pod."""
    if env.get("WERF_BUILDAH_MODE") != "docker":
        # The real one says it after a minute.
        raise WerfError(
            "component init error: unable to initialize buildah: parsing PID: this is what werf "
            "says in a restricted pod with WERF_BUILDAH_MODE=auto; set WERF_BUILDAH_MODE=docker"
        )
    temporary = env.get("TMPDIR", "/tmp")  # noqa: S108 - where werf writes, too
    for directory in (Path(env.get("HOME", "/")) / ".werf", Path(temporary)):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WerfError(f"initialization error: mkdir {directory}: {error.strerror}") from None
    with _decoded_kubeconfig(env, temporary):
        act()


@contextmanager
def _decoded_kubeconfig(env: Mapping[str, str], temporary: str) -> Iterator[None]:
    """Put a kubeconfig that a variable holds into a file, as long as a command runs."""
    name = next((name for name in settings.ENCODED_KUBECONFIGS if env.get(name)), "")
    if not name:
        yield
        return
    with tempfile.NamedTemporaryFile(prefix="werf-kubeconfig-", dir=temporary) as file:
        try:
            file.write(base64.b64decode(env[name], validate=True))
        except ValueError:
            raise WerfError(f"unable to decode base64 of {name}") from None
        file.flush()
        os.environ[settings.KUBECONFIGS[0]] = file.name
        yield


def _interrupted(number: int, _: FrameType | None) -> None:
    """Exit like werf does; the SystemExit ends a helm at work on its way up."""
    print(f"Signal: {signal.Signals(number).name}", file=sys.stderr)
    sys.exit(128 + number)
