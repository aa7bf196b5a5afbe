"""Clouds' servers for a real operator and its Jobs on a real control plane."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clouds.guards import ClusterTokens
from tests.clouds.stage import Stage
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.installation import Operator, installed

from demo.chart import ROOT
from localcluster import Api, Cluster
from localcluster.node.host import OWN_VARIABLES

INTERVAL = 2
"""Seconds between polls."""


@pytest.fixture(scope="module")
def cloud_stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Servers whose hosts and CA the cluster's new pods know, before the cluster's registry."""
    directory = tmp_path_factory.mktemp("clouds") / "stage"
    with Stage.running(directory, cluster.registry) as stage:
        variables = cluster.layout.node / OWN_VARIABLES
        new = variables.with_suffix(".new")
        new.write_text(json.dumps(stage.environment))
        new.replace(variables)
        try:
            yield stage
        finally:
            variables.unlink()


@contextlib.contextmanager
def operating(
    cluster: Cluster,
    stage: Stage,
    log: Path,
    settings: dict[str, str] | None = None,
    values: dict[str, Any] | None = None,
    *,
    as_rendered: bool = False,
) -> Iterator[Operator]:
    """A started operator that knows the stage's hosts and CA; settings and values beside that.

    With all variables of the chart's container if it is `as_rendered`.
    """
    path = os.pathsep.join([stage.environment["PYTHONPATH"], str(ROOT / "operator")])
    variables = {
        "WERF_OPERATOR_TIMER_INTERVAL": str(INTERVAL),
        "WERF_OPERATOR_TIMER_IDLE": "0",
        "WERF_OPERATOR_JOBS_TTL": "600",
        "COPYRATOR_LOG_LEVEL": "debug",  # also that has no token
        **stage.environment,
        "PYTHONPATH": path,
        **(settings or {}),
    }
    with installed(cluster, log, variables, values=values, as_rendered=as_rendered) as operator:
        operator.start()
        yield operator


@pytest.fixture(scope="module")
def account_tokens(api: Api) -> ClusterTokens:
    """Verifies the service accounts' tokens of the cluster."""
    return ClusterTokens(api)


@pytest.fixture
def new_team(
    cluster: Cluster, api: Api, namespace: Callable[..., str], tmp_path: Path
) -> Callable[[str], Team]:
    """Makes a namespace whose name begins with a word, and in which werf may deploy."""

    def make(word: str) -> Team:
        name = namespace(word)
        return make_team(cluster, api, name, tmp_path / name)

    return make


@pytest.fixture
def team(new_team: Callable[[str], Team]) -> Team:
    """A namespace in which werf may deploy."""
    return new_team("team")
