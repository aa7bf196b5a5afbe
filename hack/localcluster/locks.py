"""A lock between processes, so that parallel runs build once and start once."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.1


@contextmanager
def file_lock(path: Path, on_wait: Callable[[float], None] | None = None) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel drops it when the holder dies.

    Args:
        path: the lock file; it and its directory are made when missing.
        on_wait: called again and again while another process holds the lock, with the seconds
            waited so far; it may raise to give up.
    """
    descriptor = _acquire(path, on_wait)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, on_wait: Callable[[float], None] | None) -> int:
    started = time.monotonic()
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if on_wait:
                on_wait(time.monotonic() - started)
            time.sleep(_POLL_SECONDS)
            continue
        except BaseException:
            os.close(descriptor)
            raise
        if _is_still_at(descriptor, path):
            return descriptor
        # The last holder removed the file together with its directory: this is a dead inode.
        os.close(descriptor)


def _is_still_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
