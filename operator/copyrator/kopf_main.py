"""`kopf run -A -m copyrator.kopf_main`: the operator under kopf's own command line.

Importing this module registers everything with kopf's default registry; settings come from the
environment variables that `copyrator run --help` lists.
"""

from copyrator.runtime.supervisor import install

install()
