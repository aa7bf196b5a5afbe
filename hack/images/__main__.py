"""`python -m images`: build the operator's image and say what it consists of."""

import argparse
import sys

from images import layout, machine, product
from images.store import Store
from localcluster.errors import LocalClusterError


def main() -> None:
    """Build and report."""
    parser = argparse.ArgumentParser(prog="python -m images", description=__doc__)
    parser.add_argument("--variant", choices=product.VARIANTS, default=product.PLAIN)
    variant = parser.parse_args().variant
    store = Store.default()
    try:
        machine.prepare(store.progress)
        image = product.operator(store, variant=variant)
    except LocalClusterError as error:
        sys.exit(str(error))
    print(f"The image, as an OCI layout: {image.root}")
    print(layout.report(image))


if __name__ == "__main__":
    main()
