"""`python -m images`: build the operator's image and say what it consists of."""

import sys

from images import machine, product, report
from images.store import Store
from localcluster.errors import LocalClusterError


def main() -> None:
    """Build and report."""
    store = Store.default()
    try:
        machine.prepare(store.progress)
        image = product.operator(store)
    except LocalClusterError as error:
        sys.exit(str(error))
    print(f"The image, as an OCI layout: {image.root}")
    print(report.text(image))


if __name__ == "__main__":
    main()
