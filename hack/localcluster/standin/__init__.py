"""A stand-in for werf, for machines that have none: Python with PyYAML, helm and kubectl.

It has werf's command line as far as the operator's Jobs use it, and its outside: variables and
flags, the printed `ref:` and `digest:` lines, the report file, messages and exit codes, as measured
with werf 2.67.0, 2.75.3 and 3.2.0 (docs/facts/werf.md) and read in werf's source. What isn't
written there it refuses, so that a Job with a wrong flag or variable fails. The real helm renders
the chart. A plan is made by reads and dry-run server-side applies of each object; a deploy begins
with the same plan, and carries it out: what it writes, and what it says where that is refused, is
what docs/facts/guard.md lists.

Other than with werf, a render with WERF_VALIDATE ends where the account may not read an object that
is to be created, and after nothing but failed deploys `.Release.IsUpgrade` is true.
A fault in YAML is told without the lines around it. What werf does side by side is done in turn, by
kind and name, so that of operations in one stage those before a refused one are always done. The
lock of a process that was killed is free at once, not after 10 s.

Where the real one waits before it tries again (the lock 4 s, a webhook that can't be called 2 s, an
unknown kind 1 s) the stand-in waits a tenth of that, or COPYRATOR_WERF_PACE times that.

A variable of its own says which of the three it plays, and what `werf version` prints:
COPYRATOR_WERF=2.67, 2.75 or 3.2; without it 2.75. The process node sets it for each container: by
the version in the image's tag (2.67.0, 3.2.0, 2-stable), and for others (latest) to its own.
"""
