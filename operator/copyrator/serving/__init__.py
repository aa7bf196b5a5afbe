"""The process's HTTP servers: probes, metrics, the webhook."""
