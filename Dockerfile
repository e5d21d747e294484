# Two images from one file: `workers` (light) and `spark` (with a JRE and pyspark; also the cluster's own processes).
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY sql sql
COPY mqpg mqpg
COPY workers workers
COPY spark spark
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim AS workers
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && useradd --create-home mqpg
USER mqpg
WORKDIR /home/mqpg
CMD ["mqpg", "worker"]

FROM workers AS spark
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
# pyspark brings the cluster's processes along (spark-class), so that they have the driver's version.
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[spark]"
USER mqpg
CMD ["mqpg", "audit"]
