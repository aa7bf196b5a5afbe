"""Takes away what a node leaves on the machine, also that of a run that was killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from signal import SIGKILL

from localcluster import ports, processes
from localcluster.processes import ProcessId
from realnode.settings import Paths

_CGROUPS = Path("/sys/fs/cgroup")
# What a kubelet sets to its liking when it starts.
_TUNED = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
_TUNED_KEYS = ("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")


def favour_containers() -> None:
    """Let what runs in containers have its share of a machine that is busy with other things.

    containerd puts them in one control group, which counts as much as any one process beside it.
    """
    for controller, file, value in (("cpu", "cpu.shares", "262144"), ("", "cpu.weight", "10000")):
        group = _CGROUPS / controller / "k8s.io"
        if (_CGROUPS / controller / "cgroup.procs").exists():
            with contextlib.suppress(OSError):
                group.mkdir(exist_ok=True)
                (group / file).write_text(value, encoding="ascii")


def remember_kernel_settings(paths: Paths) -> None:
    """Note what the kubelet is going to change, for `remove` to set back."""
    found = {}
    for name in (*_TUNED, *_TUNED_KEYS):
        with contextlib.suppress(OSError):
            found[name] = (Path("/proc/sys") / name).read_text(encoding="ascii").strip()
    (paths.root / "kernel.json").write_text(json.dumps(found), encoding="ascii")


def remove(paths: Paths, *, keep_logs: bool = False) -> None:
    """End every process of the node and take away all that it made.

    The kubelet first, then the containers, or it would start them anew; then what carries the
    node's mark: containerd, its shims, the networks' listeners.
    """
    for name in ("kubelet", "containerd"):
        _end(_recorded(paths, name))
    _kill_all(_inits(paths))
    _kill_all(processes.marked(paths.root))
    _unmount(paths.root)
    _remove_networks(paths)
    _remove_cgroups(paths)
    _set_kernel_settings_back(paths)
    ports.release(paths.root)
    for entry in paths.root.iterdir() if paths.root.is_dir() else ():
        if keep_logs and entry == paths.logs:
            continue
        shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(
            missing_ok=True
        )
    with contextlib.suppress(OSError):
        paths.root.rmdir()


def record(paths: Paths, name: str, process: ProcessId) -> None:
    """Note a process of the node."""
    fields = [process.pid, process.started, process.boot]
    (paths.root / f"{name}.pid").write_text(json.dumps(fields), encoding="ascii")


def _recorded(paths: Paths, name: str) -> ProcessId | None:
    try:
        return ProcessId(*json.loads((paths.root / f"{name}.pid").read_text(encoding="ascii")))
    except FileNotFoundError:
        return None


def _end(process: ProcessId | None) -> None:
    if process:
        processes.end([process], 5.0)


def _kill_all(found: list[ProcessId]) -> None:
    for process in found:
        process.send(SIGKILL)
    processes.wait_gone(found, 10.0)


def _inits(paths: Paths) -> list[ProcessId]:
    """The first process of each container; the kernel ends the others of its namespace with it."""
    found = []
    for task in _tasks(paths):
        with contextlib.suppress(OSError, ValueError):
            found.append(ProcessId.of(int((task / "init.pid").read_text(encoding="ascii"))))
    return [process for process in found if process]


def _tasks(paths: Paths) -> list[Path]:
    """One directory for each running container, named by its id."""
    return list((paths.containerd / "state").glob("*.task/k8s.io/*"))


def _remove_cgroups(paths: Paths) -> None:
    """Version 1 has a hierarchy for each controller, version 2 one at all."""
    for task in _tasks(paths):
        for group in (
            *_CGROUPS.glob(f"k8s.io/{task.name}"),
            *_CGROUPS.glob(f"*/k8s.io/{task.name}"),
        ):
            with contextlib.suppress(OSError):
                group.rmdir()


def _unmount(root: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [line.split()[4].replace("\\040", " ") for line in mounts]
    for point in reversed([point for point in points if point.startswith(f"{root}{os.sep}")]):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def _remove_networks(paths: Paths) -> None:
    for file in paths.network.glob("*[0-9a-f]") if paths.network.is_dir() else ():
        with contextlib.suppress(ValueError, OSError):
            _, namespace = json.loads(file.read_text(encoding="ascii"))
            subprocess.run(["umount", "--lazy", namespace], capture_output=True, check=False)
            Path(namespace).unlink()


def _set_kernel_settings_back(paths: Paths) -> None:
    with contextlib.suppress(OSError):
        noted = json.loads((paths.root / "kernel.json").read_text(encoding="ascii"))
        for name, value in noted.items():
            (Path("/proc/sys") / name).write_text(value, encoding="ascii")
