"""Copies that a template makes of several sources (``spec.sources`` with ``spec.template``)."""
