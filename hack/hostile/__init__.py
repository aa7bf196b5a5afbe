"""Objects and registries that try to stop the operator, for tests and benchmarks.

`texts` makes strings that are dear to parse, `rules`, `bundles` and `others` make whole objects of
them, `registry` serves what a hostile registry may answer, and `neighbours` writes it all to a
control plane for a time. `newcomers` measures what others notice. Everything follows from a seed.
"""
