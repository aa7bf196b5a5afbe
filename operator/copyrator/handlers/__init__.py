"""kopf's handlers: each passes its event on and decides nothing."""
