"""What the process answers: probes, metrics, the webhook."""
