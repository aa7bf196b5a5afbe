"""The API: specs, statuses, conditions, labels, annotations and constants.

The lowest layer. Nothing here does I/O or reads a clock; parsing never raises on any JSON.
"""
