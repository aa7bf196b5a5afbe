"""In-memory caches of objects, filled by lists and watches."""
