# Klamm as a container: docs/docker.md says how it is used.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
# The packages first: they change less often than we do.
COPY requirements/runtime.txt requirements/security.txt requirements/metrics.txt requirements/
RUN python -m venv --without-pip /opt/klamm \
    && pip --python /opt/klamm/bin/python install --no-cache-dir --require-hashes \
        --requirement requirements/security.txt --requirement requirements/metrics.txt
COPY pyproject.toml README.md LICENSE ./
COPY protocol protocol
COPY assignment assignment
COPY controller controller
COPY broker broker
COPY server server
COPY klamm klamm
# Other people's tests, and what only type checkers read, are no part of what runs.
RUN pip --python /opt/klamm/bin/python install --no-cache-dir --no-deps . \
    && find /opt/klamm/lib -type d \( -name tests -o -name _tests \) -prune -exec rm -r {} + \
    && find /opt/klamm/lib -name '*.pyi' -delete

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Klamm" \
      org.opencontainers.image.description="A simulated Kafka controller for tests" \
      org.opencontainers.image.licenses="Apache-2.0"
# The user, the number and the folders that Apache Kafka's own image has.
RUN useradd --uid 1000 --user-group --no-create-home --home-dir /var/lib/kafka appuser \
    && mkdir -p /var/lib/kafka/data /mnt/shared/config \
    && chown -R appuser:appuser /var/lib/kafka
# What Testcontainers calls in it, once its script has set the variables.
RUN mkdir -p /etc/kafka/docker \
    && printf '#!/bin/sh\nexec python -P -m klamm.container run "$@"\n' > /etc/kafka/docker/run \
    && chmod 755 /etc/kafka/docker/run
COPY --from=build /opt/klamm /opt/klamm
ENV PATH=/opt/klamm/bin:$PATH
USER 1000:1000
WORKDIR /var/lib/kafka
# The first broker's; the others listen on the next ones.
EXPOSE 9092
VOLUME ["/var/lib/kafka/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=3s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-P", "-m", "klamm.container", "healthcheck"]
ENTRYPOINT ["python", "-P", "-m", "klamm.container"]
