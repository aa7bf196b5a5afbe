"""How many requests the Jobs of a gated Bundle make, against werf's plan and apply alone.

Their scripts run here without pods.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench.process import BenchError
from bench.rig import Rig
from bench.scenario import Figures, Goal, Run, scenario
from copyrator.bundles.jobs.checks import checked_deploy_command
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.operations import Plan, read_block
from copyrator.bundles.plans.script import deploy_command, plan_command
from demo.chart import ROOT
from localcluster import Cluster
from localcluster.bundle import push
from localcluster.node.stand_in import StandIn

MOST = 3.0
"""Times the requests of werf's command alone."""
RELEASES = 3
"""Namespaces that one measurement installs the chart in."""
WERF = os.environ.get("WERF") or str(ROOT / "hack" / "localcluster" / "standin" / "werf")
"""The stand-in, which makes the requests that werf makes, or the program that is named so."""
NONCE = "0123456789abcdef" * 2
PLAN = ("werf", "bundle", "plan", "--exit-code")
CHANGES = 2
"""The exit code of such a plan that would change something."""


@scenario(
    "plans",
    "Jobs of a gated Bundle with a chart of {size} objects: requests to the API server",
    size=500,
    runs=1,
    goals={
        "plan_ratio": Goal("plan Job, against a plan alone", "times", MOST),
        "preview_ratio": Goal("preview, against a plan alone", "times", MOST),
        "deploy_ratio": Goal(
            "deploy Job of an approved plan, against an apply alone", "times", MOST
        ),
        "checked_ratio": Goal("deploy Job without a plan, against an apply alone", "times", MOST),
        "check_ratio": Goal("check for drift, against a plan of what is deployed", "times", MOST),
        "plan_alone": Goal("requests of a plan alone", ""),
        "apply_alone": Goal("requests of an apply alone", ""),
        "plan_deployed_alone": Goal("requests of a plan of what is deployed", ""),
    },
    warm_up=False,
)
def plans(rig: Rig, size: int) -> Iterator[Run]:
    """What it costs that an approval binds contents."""
    numbers = count()

    def run() -> Figures:
        number = next(numbers)
        names = [f"plans-{number}-{one}" for one in range(RELEASES)]
        rig.namespaces(*names)
        figures = measure(rig.cluster, names, size)
        if (found := figures["plan_ratio"]) > MOST:
            raise BenchError(f"a plan Job makes {found:.2f} times the requests of a plan alone")
        return figures

    yield run


def measure(cluster: Cluster, namespaces: Sequence[str], objects: int) -> Figures:
    """Count the requests of each kind of Job, in namespaces that have no release yet."""
    applied, planned, checked = namespaces
    with tempfile.TemporaryDirectory(prefix="copyrator-bench-") as name:
        directory = Path(name)
        repo = f"bench/{planned}"
        push(_chart(directory / "shop", objects), cluster.registry, repo, "1.0.0")
        with StandIn(directory / "s") as server:
            more = {"WERF_REPO": f"{cluster.registry}/{repo}", **server.variables()}
            jobs = {one: _Jobs(cluster, one, directory / one, more) for one in namespaces}
            plan_alone = jobs[planned].run(PLAN, CHANGES)[1]
            preview = jobs[planned].plan(renders=1)[1]
            found, plan = jobs[planned].plan(renders=2)
            if len(found.operations) != objects:
                raise BenchError(f"{len(found.operations)} of {objects} objects are planned")
            apply = jobs[applied].run(("werf", "bundle", "apply"))[1]
            deploy = jobs[planned].deploy(found)
            without_plan = jobs[checked].run(
                checked_deploy_command((), directory=jobs[checked].memory)
            )[1]
            deployed_alone = jobs[planned].run(PLAN)[1]
            check = jobs[planned].plan(renders=1)[1]
    return {
        "plan_ratio": plan / plan_alone,
        "preview_ratio": preview / plan_alone,
        "deploy_ratio": deploy / apply,
        "checked_ratio": without_plan / apply,
        "check_ratio": check / deployed_alone,
        "plan_alone": plan_alone,
        "apply_alone": apply,
        "plan_deployed_alone": deployed_alone,
    }


@dataclass
class _Jobs:
    """Runs the commands of Jobs' containers, and counts the requests that each makes."""

    cluster: Cluster
    namespace: str
    directory: Path
    more: Mapping[str, str]

    def __post_init__(self) -> None:
        for one in ("home", "bin", "memory"):
            (self.directory / one).mkdir(parents=True)
        (self.directory / "bin" / "werf").symlink_to(Path(WERF).absolute())
        self.memory = str(self.directory / "memory")
        self.salt = self._sealed("render-salt", b"r" * 32)

    def plan(self, *, renders: int) -> tuple[Plan, int]:
        output, requests = self.run(
            plan_command(NONCE, self.salt, (), renders=renders, directory=self.memory)
        )
        found = read_block(output, NONCE)
        if not isinstance(found, Plan) or found.render is None:
            raise BenchError(f"a plan can't be read: {found}")
        return found, requests

    def deploy(self, plan: Plan) -> int:
        approved = self._sealed("plan", plan.text.encode())
        return self.run(deploy_command(approved, self.salt, (), directory=self.memory))[1]

    def run(self, command: Sequence[str], code: int = 0) -> tuple[str, int]:
        """Its output, and how many requests there were in the namespace or to discover APIs."""
        found = self.cluster.requests()
        done = subprocess.run(
            [one.replace("$$", "$") for one in command],  # as Kubernetes expands it
            check=False,
            cwd=self.directory,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != code:
            raise BenchError(f"{' '.join(command[:2])} ended so: {done.stdout[-2000:]}")
        events = found.all()
        return done.stdout, sum(
            one.namespace == self.namespace or not one.resource for one in events
        )

    def _environment(self) -> dict[str, str]:
        path = (self.directory / "bin", self.cluster.bin_dir, Path(sys.executable).parent)
        return {
            "PATH": os.pathsep.join((*map(str, path), os.environ["PATH"])),
            "HOME": str(self.directory / "home"),
            "TMPDIR": str(self.directory),
            "WERF_KUBE_CONFIG": str(self.cluster.admin_kubeconfig),
            "WERF_TAG": "1.0.0",
            "WERF_RELEASE": "shop",
            "WERF_NAMESPACE": self.namespace,
            "WERF_BUILDAH_MODE": "docker",
            "WERF_TELEMETRY": "0",
            "WERF_LOG_COLOR_MODE": "off",
            "WERF_LOG_PRETTY": "0",
            **self.more,
        }

    def _sealed(self, name: str, content: bytes) -> SealedFile:
        path, salt = self.directory / name, self.directory / "salt"
        path.write_bytes(content)
        salt.write_bytes(b"s" * 32)
        hashed = hashlib.sha256(b"s" * 32 + content).hexdigest()
        return SealedFile(str(path), str(salt), f"{path}.copy", hashed)


def _chart(directory: Path, objects: int) -> Path:
    (directory / "templates").mkdir(parents=True)
    (directory / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 0.1.0\n")
    for number in range(objects):
        (directory / "templates" / f"m{number}.yaml").write_text(
            "apiVersion: v1\nkind: ConfigMap\n"
            f"metadata: {{name: m-{number}}}\ndata: {{greeting: hello}}\n"
        )
    return directory
