"""Queue, workers, scheduler and limits of reconciles; independent of Kubernetes and kopf."""
