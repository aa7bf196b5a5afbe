"""`copyrator` with a short Lease and short watches: a test needn't suspend it for over a minute."""

from copyrator.kube.leader import DEFAULT_TERMS
from copyrator.kube.watch.reflector import DEFAULT_TIMING

STILL = 9.0
"""Seconds after which its Lease and its watches are out of date."""
TERMS = {"duration": 6, "deadline": 5.0, "renew": 1.0}
WATCHES = {"stream": 5.0, "silence": 7.0, "doubt": 3.0, "doubt_silence": 5.0, "tolerance": 8.0}

if __name__ == "__main__":
    for durations, short in ((DEFAULT_TERMS, TERMS), (DEFAULT_TIMING, WATCHES)):
        for name, seconds in short.items():
            object.__setattr__(durations, name, seconds)  # it is frozen

    from copyrator.cli import main

    main()
