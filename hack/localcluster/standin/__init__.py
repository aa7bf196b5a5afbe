"""A stand-in for werf, for machines that have none: nothing but Python's library, helm and kubectl.

It has werf's command line as far as the operator's Jobs use it, and its outside: variables and
flags, the printed `ref:` and `digest:` lines, the report file, messages and exit codes, as measured
with werf 2.67 (docs/facts/werf.md) and read in werf's source. What isn't written there it refuses,
so that a Job with a wrong flag or variable fails. The chart is installed by the real helm. A plan
is made by reads and dry-run server-side applies of each object; a deploy begins with the same plan.

A variable of its own: STANDIN_WERF_MAJOR=3 behaves as werf 3, as far as that is known.
"""
