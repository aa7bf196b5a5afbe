"""The fake API server, whose lists and watches kopf reads."""

from tests.component.kube.conftest import api

__all__ = ["api"]
