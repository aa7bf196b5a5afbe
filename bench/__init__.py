"""The benchmarks: how fast and how small the operator is, beside a client with nothing else to do.

Times are ratios: the bare client does the same writes on the same control plane in the same run.
Counts come from the API server's audit log, CPU and memory from the operator's own process.
"""
