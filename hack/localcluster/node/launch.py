"""Getting ready: a pod's volumes, and what it takes to start one of its containers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from . import environment, kubeconfig, mounts, processes, stand_in, volumes
from .host import Host
from .mounts import CannotCreate, inside
from .sources import MissingReference, Sources

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Launch:
    """A process to start.

    Attributes:
        argv: program and arguments.
        variables: its whole environment; never shown, Secrets are in it.
        view: what it sees; its working directory lies in it.
        directory: the working directory.
        mark: how its processes are found again.
    """

    argv: list[str]
    variables: dict[str, str] = field(repr=False)
    view: mounts.View
    directory: Path
    mark: str


async def write_volumes(host: Host, pod: Object) -> None:
    """Write all volumes of a pod.

    Raises:
        MissingReference: something that a volume needs isn't there yet.
        ApiError: the API server refused or is away.
    """
    own = Sources(host.api, pod["metadata"]["namespace"])
    for volume in pod["spec"].get("volumes") or []:
        try:
            content = await volumes.files(volume, pod, own, partial(host.token, pod))
        except MissingReference as missing:
            words = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}'
            raise MissingReference(words) from None
        volumes.write(host.pod_dir(pod) / "volumes" / volume["name"], content)


async def prepare(host: Host, pod: Object, container: Object) -> Launch:
    """Resolve everything that a container's process needs.

    Raises:
        MissingReference: a ConfigMap, Secret or key of its environment is missing.
        CannotCreate: there is no command, or its mounts contradict each other.
        ApiError: the API server refused or is away.
    """
    name, pod_dir = str(container["name"]), host.pod_dir(pod)
    if not container.get("command"):
        raise CannotCreate(
            "no command specified: a process node has no images, so no entry point either; "
            f"set `command` in container {name}"
        )
    given = {
        "HOME": mounts.HOME,
        "TMPDIR": mounts.TMP,
        "HOSTNAME": str(pod["metadata"]["name"]),
        **host.service_variables(),
    }
    own = Sources(host.api, pod["metadata"]["namespace"])
    resolved = await environment.resolve(container, pod, own, given)
    view = mounts.lay_out(container, pod, pod_dir)
    words = [*container["command"], *(container.get("args") or [])]
    # Expand before rewriting, so that a path from a variable is mapped exactly once.
    argv = [view.paths.rewrite(environment.expand(word, resolved.values)) for word in words]
    variables = {
        key: value if key in resolved.secret else view.paths.rewrite(value)
        for key, value in resolved.values.items()
    }
    real = {"PATH": os.environ["PATH"], **_credentials(host, pod, container, view)}
    real |= stand_in.played(str(container.get("image", "")), os.environ)
    real |= host.own_variables()
    real |= host.stand_in.variables()
    if "PATH" in variables:
        real["PATH"] = f"{variables.pop('PATH')}:{real['PATH']}"
    mark = processes.mark(host.name, pod_dir, name)
    directory = inside(view.root, str(container.get("workingDir") or "/"))
    directory.mkdir(parents=True, exist_ok=True)
    return Launch(argv, {**real, **variables, processes.MARK: mark}, view, directory, mark)


def _credentials(host: Host, pod: Object, container: Object, view: mounts.View) -> dict[str, str]:
    """Point clients to a kubeconfig made from the token that the container mounts, if any."""
    token_file = mounts.token_file(container, pod, view)
    if token_file is None or not token_file.is_file():
        return {}
    path = host.pod_dir(pod) / "kubeconfig" / str(container["name"])
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(
        kubeconfig.for_container(
            host.api.connection,
            token=token_file.read_text(),
            namespace=pod["metadata"]["namespace"],
        )
    )
    # Not WERF_KUBE_CONFIG, too: a KUBECONFIG of the container would have no effect then.
    return {"KUBECONFIG": str(path)}
