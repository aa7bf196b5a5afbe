"""What runs keys: queue, workers, scheduler and limits; knows neither Kubernetes nor kopf."""
