"""A stand-in for werf, for machines that have none: nothing but Python's library, helm and kubectl.

It has werf's command line as far as the operator's Jobs use it, and its outside: variables and
flags, the printed `ref:` and `digest:` lines, the report file, messages and exit codes, as measured
with werf 2.67.0, 2.75.3 and 3.2.0 (docs/facts/werf.md) and read in werf's source. What isn't
written there it refuses, so that a Job with a wrong flag or variable fails. The chart is installed
by the real helm. A plan is made by reads and dry-run server-side applies of each object; a deploy
begins with the same plan.
Each command renders the chart anew; an apply does so twice, so that of a chart that draws the
report may tell of other operations than were done.

Other than with werf, a render with WERF_VALIDATE ends where the account may not read an object that
is to be created, hooks are deployed without the labels of WERF_ADD_LABEL_*, and helm deploys crds/.
Annotations that are no texts are refused by each version, and not left out by 2; fields that the
API server doesn't know are passed over; a fault in YAML is told without the lines around it.

A variable of its own says which of the three it plays, and what `werf version` prints:
COPYRATOR_WERF=2.67, 2.75 or 3.2; without it 2.75. The process node sets it for each container: by
the version in the image's tag (2.67.0, 3.2.0, 2-stable), and for others (latest) to its own.
"""
