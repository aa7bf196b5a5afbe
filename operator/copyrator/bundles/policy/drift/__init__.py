"""Drift: when a release is checked for it, what has drifted, and the deploy that corrects it."""
