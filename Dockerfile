# Two images: `workers` is light, and runs workers, migrations and the dashboard. `spark` also has a
# JRE and pyspark, for the audit and the Spark cluster itself.
FROM python:3.12.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY sql sql
COPY mqpg mqpg
COPY workers workers
COPY spark spark
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12.12-slim-bookworm AS workers
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[metrics,web]" \
    && useradd --create-home --uid 10001 mqpg
# As a number, so that Kubernetes can see that it is not root.
USER 10001
WORKDIR /home/mqpg
CMD ["mqpg", "worker"]

FROM workers AS spark
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
# pyspark includes the programs of the cluster (spark-class), which therefore have the same version
# as the driver.
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[spark]"
USER 10001
CMD ["mqpg", "audit"]
