"""A page that is open while the API server goes away, on a control plane of its own."""

import pytest
from tests.e2e.cli.conftest import Stage, rule
from tests.e2e.installation import install
from tests.e2e.ui.conftest import SHOWN

HOME = "home"


@pytest.fixture(scope="module")
def stage(disposable):
    """Our CRDs, and no operator."""
    install(disposable, HOME)
    admin = disposable.admin_kubeconfig
    return Stage(disposable, disposable.api(), HOME, HOME, None, admin)


async def test_it_is_said_and_the_page_is_right_again_when_it_is_back(stage, tab):
    stage.apply(rule(HOME, "before", source={"kind": "Secret", "name": "s"}))
    await tab.go("/")
    await tab.shows(f"{HOME}/before")
    stage.cluster.kill("kube-apiserver")
    try:
        await tab.shows("This may be out of date")
    finally:
        stage.cluster.restart("kube-apiserver")
    stage.apply(rule(HOME, "after", source={"kind": "Secret", "name": "s"}))
    await tab.page.locator(".note.fault").wait_for(state="detached", timeout=SHOWN * 2)
    await tab.shows(f"{HOME}/after")
