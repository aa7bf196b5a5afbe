"""The process node: a Node that runs its pods' containers as local processes.

It does what the kubelet does, as far as a Job, a demo and a test can see it, on a machine without
a container runtime. There is **no isolation**: a container is a process of the user who started
the node, sees the machine's file system and network, and no limit or securityContext is applied.
It is meant for a control plane on loopback, and for nothing else.

Reading order: agent (which pods), pod (one pod's life), container (one process), and what they
are made of: environment, volumes, mounts, status.

Known differences from a real node:

- An image is never pulled, and has neither an entry point nor variables of its own: `command` must
  be set. An image whose registry is ``missing.invalid`` behaves as one that can't be pulled.
- Mount paths, ``/home/build`` and ``/tmp`` are mapped into the pod's own directory by rewriting
  them where they occur in `command`, `args`, `workingDir` and the environment. What a program
  reads from a file, or has compiled in, isn't rewritten; a Secret's value never is.
- A mount inside an emptyDir is a link in it, seen by every container that mounts the emptyDir.
- A container finds its ServiceAccount's token by KUBECONFIG, because the fixed path
  ``/var/run/secrets/kubernetes.io/serviceaccount`` isn't the container's own.
- Volumes are written once, before the first container starts, and tokens hold for a day.
- Of fields only a pod's name, namespace and uid, of volumes no hostPath and no subPath: a pod that
  wants more waits, and says for what.
- There are no Events: what a pod waits for stands in the state of its first container that waits.
- Of the conditions of pods and of the Node there is Ready alone, and a pod has no address.
- When the node starts anew, all pods that had begun have failed, whatever their restart policy.
- Probes, lifecycle hooks, exec and a deadline of the pod itself are not supported; a Job's is. A
  native sidecar has started once it runs.
"""
