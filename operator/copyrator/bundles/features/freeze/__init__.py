"""Freezes: no deploy begins in a namespace, or in all of them."""
