"""A stand-in for werf, for machines that have none: nothing but Python's library, helm and kubectl.

It has werf's command line as far as the operator's Jobs use it, and its outside: variables and
flags, the printed `ref:` and `digest:` lines, the report file, messages and exit codes, as measured
with werf 2.67 (docs of the project: "werf: facts for correct Jobs") and read in werf's source. The
chart is installed by the real helm.

It is stricter than werf in one point: it talks plain HTTP to nobody, loopback included, unless
WERF_INSECURE_REGISTRY says so, because a test on loopback must find a Job that forgets it.

Variables of its own: STANDIN_WERF_MAJOR=3 behaves as werf 3; STANDIN_WERF_DELAY=SECONDS waits
between the pull and the deploy, for tests that interrupt one.
"""
