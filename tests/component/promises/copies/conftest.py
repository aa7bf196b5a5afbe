"""What these tests start is the copying half of tests/component/copies, and another cluster."""

from tests.component.copies.conftest import cluster, operator, timing
from tests.component.copies.test_fights import clock, contested
from tests.component.copies.test_remote_sources import authority, hub

__all__ = ["authority", "clock", "cluster", "contested", "hub", "operator", "timing"]
