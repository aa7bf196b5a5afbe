"""Runs in the Dockerfile's first stage: makes the tree that the image consists of.

Only the standard library is there. What goes is what the operator can never import: the models and
calls of the Kubernetes client (the operator reads kubeconfigs with that client and has its own for
the rest), which are two thirds of all bytes, packages that our dependencies only import for what we
don't use, botocore's descriptions of services, and type stubs and C sources. A test runs the image.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.metadata
import py_compile
import shutil
import sys
from pathlib import Path

LIBRARY = "usr/lib/copyrator"
LAUNCHERS = {"usr/bin/copyrator": "copyrator.cli", "usr/bin/kopf": "kopf.cli"}
"""The programs, and the module of each one's `main`."""
UNUSED_CODE = ("kubernetes/client", "kubernetes/aio/client")
UNUSED_PACKAGES = ("markdown-it-py", "mdurl", "pycparser", "Pygments")
"""rich prints source code and Markdown with them, and cffi reads C declarations."""
AWS_DATA = "botocore/data"
AWS_SERVICES = ("ecr", "ecr-public", "sts")
"""Of some 400 services the ones whose descriptions the operator's clients are made of."""
SOURCES = ("*.pyi", "*.pyx", "*.pxd", "*.pxi", "*.c", "*.h")

_START = """#!{python} -P
from {module} import main
main()
"""


def main() -> None:
    """``trim.py ROOT --python PATH``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--python", required=True, help="the base image's interpreter")
    options = parser.parse_args()
    library = options.root / LIBRARY
    remove_what_is_never_imported(library)
    # A read-only root can't keep what is compiled at the first start. Hashes, not times, so that
    # the same sources give the same bytes; unchecked, because nobody edits an image.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compiled = compileall.compile_dir(
        library, quiet=1, invalidation_mode=mode, stripdir=str(options.root), prependdir="/"
    )
    if not compiled:
        sys.exit("some modules can't be compiled, see above")
    for path, module in LAUNCHERS.items():
        launcher = options.root / path
        launcher.parent.mkdir(parents=True, exist_ok=True)
        launcher.write_text(_START.format(python=options.python, module=module), encoding="ascii")
        launcher.chmod(0o755)


def remove_what_is_never_imported(library: Path) -> None:
    """Remove it; what a package's `__init__` says of its modules stays."""
    for client in UNUSED_CODE:
        for module in (library / client).glob("*/*.py"):
            if module.name != "__init__.py":
                module.unlink()
    for distribution in importlib.metadata.distributions(path=[str(library)]):
        if distribution.name in UNUSED_PACKAGES:
            for top in {path.parts[0] for path in distribution.files or ()} - {".."}:
                shutil.rmtree(library / top)
    services = library / AWS_DATA
    for service in set(services.glob("*/")) - {services / name for name in AWS_SERVICES}:
        shutil.rmtree(service)
    for pattern in SOURCES:
        for path in library.rglob(pattern):
            path.unlink()


if __name__ == "__main__":
    main()
