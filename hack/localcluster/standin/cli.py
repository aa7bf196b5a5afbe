"""Commands and exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

from . import deploy, manifests, registry, release, settings
from .errors import ChangesPlanned, WerfError

VERSION_3 = "v3.2.0"


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        0 done or skipped; 1 any error; 2 changes planned. A signal n exits with 128 + n.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupted)
    try:
        return _run(list(arguments))
    except WerfError as error:
        return _failed(str(error), 1)
    except ChangesPlanned as result:
        return _failed(str(result), 2)


def _run(arguments: list[str]) -> int:
    env = settings.process_environment()
    newest = env.get("STANDIN_WERF_MAJOR") == "3"
    match arguments:
        case [manifests.POST_RENDER]:
            return manifests.add_metadata()
        case ["version", *_]:
            print(VERSION_3 if newest else deploy.VERSION_2)
        case ["cr", "login", *rest]:
            login = settings.parse_login(rest, env)
            _check_buildah(env.get("WERF_BUILDAH_MODE"))
            registry.log_in(login)
            print("Successful login")
        case ["bundle", "apply" | "plan" as command, *rest]:
            wanted = settings.parse_deploy(command, rest, env)
            _check_buildah(env.get("WERF_BUILDAH_MODE"))
            (deploy.apply if command == "apply" else deploy.plan)(wanted)
        case ["helm", "uninstall", *rest] if not newest:
            unwanted = settings.parse_uninstall(rest, env)
            _check_buildah(env.get("WERF_BUILDAH_MODE"))
            _uninstall(unwanted)
        case ["dismiss", *rest] if newest:
            _uninstall(settings.parse_dismiss(rest, env))
        case ["dismiss", *_]:
            # werf 2 has one, but it is for projects: it wants a git work tree and werf.yaml.
            raise WerfError("unable to find project: werf.yaml not found")
        case ["helm", command, *_]:
            raise WerfError(f'unknown command "{command}" for "werf helm"')
        case [command, *_]:
            raise WerfError(f'unknown command "{command}" for "werf"')
        case _:
            print("werf: cr login | bundle apply | bundle plan | helm uninstall | version")
    return 0


def _uninstall(unwanted: settings.Uninstall) -> None:
    with release.locked(unwanted.release, unwanted.namespace):
        release.uninstall(unwanted)


def _check_buildah(mode: str | None) -> None:
    """Fail where werf does in a restricted pod, only at once and not after a minute."""
    if mode != "docker":
        raise WerfError(
            "component init error: unable to initialize buildah: parsing PID: this is what werf "
            "says in a restricted pod with WERF_BUILDAH_MODE=auto; set WERF_BUILDAH_MODE=docker"
        )


def _failed(message: str, code: int) -> int:
    sys.stdout.flush()
    print(f"Error: {message}", file=sys.stderr)
    return code


def _interrupted(number: int, _: FrameType | None) -> None:
    """Exit like werf does; the SystemExit ends a helm at work on its way up."""
    print(f"Signal: {signal.Signals(number).name}", file=sys.stderr)
    sys.exit(128 + number)
