"""The operator's image, built on bases made of Debian packages, and what it consists of.

Nothing but Debian's own packages and PyPI is needed: debootstrap makes the bases, buildah builds
the Dockerfile on them, and results are kept by content in the user's cache.
"""
