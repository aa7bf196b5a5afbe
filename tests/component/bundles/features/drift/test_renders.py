"""How often the Job of each kind runs werf's render and plan: its script, with its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, approve, deployed, waits
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.features.drift.test_drift_corrections import check_now
from tests.component.bundles.features.previews.test_previews import answered, ask
from tests.component.bundles.fixture_types import Make, Run
from tests.plan_jobs import Pod, graph

pytestmark = pytest.mark.usefixtures("registry")


@dataclass
class Scripts:
    """The Jobs that were created, with the files of Secrets that each mounted when it ran."""

    werf: Werf
    directory: Path
    jobs: list[tuple[dict[str, Any], dict[str, bytes]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.werf.cluster.ends = self.run

    def run(self, job: dict[str, Any]) -> tuple[int, str] | None:
        volumes = job["spec"]["template"]["spec"]["volumes"]
        secrets = {one["name"] for one in volumes if "secret" in one}
        mounts = container(job)["volumeMounts"]
        places = {one["mountPath"] for one in mounts if one["name"] in secrets}
        paths = [one for one in container(job)["command"] if one.rpartition("/")[0] in places]
        self.jobs.append((job, {path: self.werf.mounted(job, path) for path in paths}))
        return self.werf.run(job)

    def counts(self) -> list[tuple[str, int, int]]:
        """Of each Job its kind, and how often its script plans and renders."""
        return [self._counts(number, *one) for number, one in enumerate(self.jobs)]

    def _counts(
        self, number: int, job: dict[str, Any], files: dict[str, bytes]
    ) -> tuple[str, int, int]:
        root = self.directory / str(number)
        pod = Pod("sh", root)
        pod.while_planning('echo x >>"$FAKE/plans"')
        for path in (one for one in container(job)["command"][3:] if one.startswith("/")):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            if path in files:
                (root / path[1:]).write_bytes(files[path])
        first, directory, *others = container(job)["command"][3:]
        (root / directory[1:]).mkdir(parents=True, exist_ok=True)
        moved = [f"{root}{one}" if one.startswith("/") else one for one in (directory, *others)]
        pod.run((*container(job)["command"][:3], first, *moved), graph([]))
        plans, renders = (pod.fake / name for name in ("plans", "renders"))
        kind = job["metadata"]["labels"]["operator.werf.dev/job"]
        return kind, *(
            len(one.read_text().split()) if one.exists() else 0 for one in (plans, renders)
        )


@pytest.fixture
def scripts(werf: Werf, tmp_path: Path) -> Scripts:
    return Scripts(werf, tmp_path)


@pytest.mark.needs("approval", "previews")
async def test_a_plan_renders_twice_its_deploy_once_and_a_preview_once(
    cluster: BundleCluster, run: Run, bundle: Make, scripts: Scripts
) -> None:
    bundle(approval=ALWAYS)
    await run(guard_policy=None)
    approve(cluster, await waits(cluster))
    await deployed(cluster)
    ask(cluster, "1.0.0")
    assert (await answered(cluster))["outcome"] == "Planned"

    assert scripts.counts() == [("plan", 1, 2), ("deploy", 1, 1), ("plan", 1, 1)]


@pytest.mark.needs("charts")
async def test_a_deploy_without_a_plan_renders_once_its_baseline_twice_and_a_check_once(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, scripts: Scripts
) -> None:
    release = Release(cluster, werf)
    bundle(drift=DETECT)
    await run(timer_interval=1.0)
    await release.in_sync()
    await check_now(cluster, release)
    await release.in_sync()

    assert scripts.counts() == [("deploy", 0, 1), ("drift", 1, 2), ("drift", 1, 1)]
