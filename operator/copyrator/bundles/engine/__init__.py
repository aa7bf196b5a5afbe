"""A plain Bundle's whole life, and the points where features enter it."""
