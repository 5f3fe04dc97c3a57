# The offsetbook command with its notebooks and runbooks in a container. Nothing here needs it.
#   docker build --tag offsetbook .
#   docker run --rm --volume "$PWD/fleet.yaml:/etc/offsetbook/fleet.yaml:ro" offsetbook lag
# For a build that can be repeated to the byte, add the digest that you have checked to the tag.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /opt/offsetbook
COPY requirements-installer.lock requirements.lock pyproject.toml ./
RUN python -m venv .venv \
    && .venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes -r requirements-installer.lock
# The lock also has the tools of the tests, so it is what pins, and pyproject.toml what is installed.
# A file whose hash is not the one in the lock is refused.
RUN .venv/bin/uv pip install --no-cache --compile-bytecode --python .venv/bin/python \
        --constraint requirements.lock --extra history -r pyproject.toml
COPY README.md LICENSE ./
COPY toolkit toolkit
COPY widgets widgets
COPY notebooks notebooks
COPY runbooks runbooks
# Editable, as in a clone: the command finds notebooks and runbooks beside its package.
RUN .venv/bin/uv pip install --no-cache --offline --no-deps --no-build-isolation \
        --python .venv/bin/python --editable . \
    && .venv/bin/python -m compileall -q toolkit widgets \
    && .venv/bin/uv pip uninstall --python .venv/bin/python pip uv

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="offsetbook" \
      org.opencontainers.image.description="Operations toolkit for Kafka consumer groups" \
      org.opencontainers.image.licenses="Apache-2.0"
# Java for Spark, which does not install where the folder of its manual pages was taken away.
# Versions are Debian's to choose: it keeps no old ones to pin.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin offsetbook \
    && install --directory --owner=10001 --group=10001 --mode=0750 /data
COPY --from=build /opt/offsetbook /opt/offsetbook
# Spark starts with half the work from an archive of its classes, which fits this Java.
RUN /opt/offsetbook/.venv/bin/offsetbook warm-up --environment
# HOME is for what Jupyter and Spark leave behind; undo records, runs and history are in /data.
ENV PATH=/opt/offsetbook/.venv/bin:$PATH \
    HOME=/tmp \
    OFFSETBOOK_FLEET=/etc/offsetbook/fleet.yaml \
    OFFSETBOOK_STATE=/data/state
WORKDIR /data
# Spark does not start as a user that has no name, so no other number will do.
USER 10001:10001
# tini hands signals on and collects what Java and kernels leave, which process 1 has to do; with -s
# also where another init is process 1 (docker run --init, shareProcessNamespace), without a warning.
ENTRYPOINT ["tini", "-s", "--", "offsetbook"]
CMD ["--help"]
