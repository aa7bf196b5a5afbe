"""``spec.greeting``: each release greets its guests with what a ConfigMap says."""
