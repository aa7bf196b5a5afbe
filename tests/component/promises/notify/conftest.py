"""What these tests start is the notifier of tests/component/notify."""

from tests.component.notify.conftest import children, cluster, receiver, world

__all__ = ["children", "cluster", "receiver", "world"]
