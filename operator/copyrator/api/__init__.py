"""What users write and read: specs, statuses, conditions, and every name of ours.

The lowest layer. Nothing here does I/O or reads a clock; parsing never raises on any JSON.
"""
