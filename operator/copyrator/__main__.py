"""`python -m copyrator`: the same as `copyrator`, where no entry point is installed."""

from copyrator.cli import main

if __name__ == "__main__":
    main()
