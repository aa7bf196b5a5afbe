"""A real node on this machine: kubelet and containerd as processes, pods on their own networks.

It joins a control plane of `localcluster` and needs root and Debian's packages. Pods reach the API
server and the registry on this machine's loopback and nothing else. Everything is under one
directory, and stopping takes all of it away again: processes, mounts, network namespaces, cgroups.
"""
