# Two images, for amd64 and arm64: `workers` is light, and runs workers, migrations and the dashboard.
# `spark` also has a JRE and pyspark, for the audit and the Spark cluster itself.
FROM python:3.12.12-slim-bookworm AS base
LABEL org.opencontainers.image.title="mqpg" \
    org.opencontainers.image.description="A transactional message queue that lives inside PostgreSQL" \
    org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/mqpg/bin:$PATH PYTHONPATH=/opt/mqpg
RUN useradd --create-home --uid 10001 mqpg
WORKDIR /home/mqpg

# Requirements before sources, so that a change of these does not install the former again. tzdata,
# because psycopg looks up the server's time zone, and not every base has it.
FROM base AS requirements
COPY pyproject.toml ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    more = project['optional-dependencies']; \
    print('tzdata', *project['dependencies'], *more['metrics'], *more['web'], sep='\n', file=open('workers.txt', 'w')); \
    print(*more['spark'], sep='\n', file=open('spark.txt', 'w'))"

FROM base AS libraries
COPY --from=requirements /home/mqpg/workers.txt ./
RUN pip install --no-cache-dir --no-compile --target /opt/mqpg --requirement workers.txt
# These two are published with what only a debugger needs.
RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils \
    && find /opt/mqpg/sqlalchemy /opt/mqpg/greenlet -name "*.so" -exec strip --strip-unneeded {} +

FROM base AS code
COPY pyproject.toml setup.py README.md LICENSE ./
COPY sql sql
COPY mqpg mqpg
COPY workers workers
COPY spark spark
RUN pip install --no-cache-dir --no-deps --target /opt/mqpg .

# Of the libraries only what mqpg imports is compiled: it starts fast, and stays small.
FROM base AS compiled
COPY --from=libraries /opt/mqpg /opt/mqpg
COPY --from=code /opt/mqpg /opt/mqpg
RUN python -c "import mqpg, mqpg.workers.appender, mqpg.workers.cli, mqpg.workers.compensator, \
    mqpg.workers.keeper, mqpg.schema, mqpg.web.application, prometheus_client, psycopg_binary, uvicorn" \
    && mqpg worker --help && mqpg web --help && mqpg status --help

FROM base AS workers
COPY --from=compiled /opt/mqpg /opt/mqpg
# As a number, so that Kubernetes can see that it is not root.
USER 10001
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=6 CMD ["mqpg", "worker", "--health"]
CMD ["mqpg", "worker"]

FROM base AS spark
RUN apt-get update \
    && apt-get install -y --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=requirements /home/mqpg/spark.txt ./
# pyspark includes the programs of the cluster (spark-class), which therefore have the same version
# as the driver.
RUN pip install --no-cache-dir --target /opt/mqpg --requirement spark.txt
COPY --from=compiled /opt/mqpg /opt/mqpg
USER 10001
CMD ["mqpg", "audit", "--engine", "spark"]
