# The operator's image. Two stages: the first has pip, the second only what runs.
#
#   buildah bud --tag copyrator .          docker build --tag copyrator .
#
# Both bases can be replaced; they must have the same minor version of Python. `make image` and `make
# release` build on Debian packages alone (hack/images), which is how the image is tested. Those below
# are pinned by the digests of their indexes of all platforms; to update one: docker buildx imagetools
# inspect NAME:TAG. The first stage runs on the machine's own platform for each target.
#
# With --build-arg VARIANT=-keyless the image can verify keyless signatures and send notifications too,
# and with VARIANT=-clouds also log in to clouds' registries.
ARG BUILD_IMAGE=docker.io/library/python:3.13-slim-trixie@sha256:7e3a6aca9d74f93cca21a91d86a8dad8c34749afd5b4a98ee481c9c47b9f5ed4
ARG BASE_IMAGE=gcr.io/distroless/python3-debian13:nonroot@sha256:6bfc400d0a6d89f50f5bbc0a4b4ff57214ae5c01647c3a74c2a0c8d830b4cc00

FROM --platform=${BUILDPLATFORM} ${BUILD_IMAGE} AS build
# How this machine reaches PyPI, where that isn't the ordinary way; pip reads them as variables.
ARG PIP_CERT
ARG PIP_INDEX_URL
# Where Python is in the base image.
ARG PYTHON=/usr/bin/python3
# The dependencies: empty, -keyless or -clouds; the suffix of the lock file's name and of the image's tag.
ARG VARIANT=
# Of the image: amd64 or arm64.
ARG TARGETARCH
WORKDIR /src
COPY requirements.lock ./
COPY requirements-keyless.lock ./
COPY requirements-clouds.lock ./
# Wheels only: nothing is compiled, and no code of a package runs here. Every file is checked against
# the hash in the lock. The lock is complete; with dependencies, Debian's pip would take the newest
# pydantic for a package that asks for pydantic[email], and refuse it, since the lock has another.
RUN case "${TARGETARCH}" in amd64) machine=x86_64;; arm64) machine=aarch64;; *) exit 1;; esac \
    && python3 -m pip install --no-cache-dir --disable-pip-version-check --no-compile \
      --no-deps --require-hashes --only-binary :all: --target /out/usr/lib/copyrator -r "requirements${VARIANT}.lock" \
      --platform "manylinux_2_17_${machine}" --platform "manylinux_2_28_${machine}" --platform "manylinux2014_${machine}" \
    && rm -r /out/usr/lib/copyrator/bin
COPY LICENSE /out/usr/share/licenses/copyrator/LICENSE
COPY operator/copyrator /out/usr/lib/copyrator/copyrator
COPY hack/images/trim.py ./
RUN python3 trim.py /out --python "${PYTHON}"

FROM ${BASE_IMAGE}
COPY --from=build /out /
# After the files, so that another commit makes no other layers.
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="copyrator" \
      org.opencontainers.image.description="Copies objects between namespaces by rule and deploys werf bundles from OCI registries" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PYTHONPATH=/usr/lib/copyrator \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
# By number, so that the kubelet can tell that it is not root; distroless calls it nonroot.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/bin/copyrator"]
