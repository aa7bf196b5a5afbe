"""What the operator is built on, measured against what it could be built on instead.

A question is a scenario of the group ``choices``; each measures all sides in one run, each side in
a process of its own. The results are in docs/adr/.
"""
