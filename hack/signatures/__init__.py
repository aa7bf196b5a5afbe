"""Makes signatures by the real cosign and notation, and records them for the tests.

See README.md. The tests that only read what was recorded need none of this.
"""
