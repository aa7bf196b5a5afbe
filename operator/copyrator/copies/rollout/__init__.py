"""`spec.rollout`: the steps in which changed content goes out."""
