"""``python -m hostile PLAN``: the process of `neighbours`."""

import sys

from hostile.neighbours import main

if __name__ == "__main__":
    main(sys.argv[1])
