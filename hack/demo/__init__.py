"""A walk through both of Copyrator's jobs on a real control plane: ``make demo``.

Nothing here is simulated but the node (pods run as local processes) and, without the variable
``WERF``, werf itself. The operator runs as a local process under exactly the service account and
rights that the Helm chart installs. Every step types the commands that it shows, waits for the
state that Copyrator promises, and shows the objects that the API server really holds.
"""
