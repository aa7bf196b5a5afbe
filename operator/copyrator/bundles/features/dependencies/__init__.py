"""Dependencies: new versions wait until other Bundles are Ready (``spec.dependsOn``)."""
