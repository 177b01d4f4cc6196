# The pinned packages of requirements.lock, and no code of the project: that is the checkout it is
# run in (docs/cluster.md). Every package has a wheel or is Python alone, so that nothing compiles.
#   docker build -t private-graphs . && docker run --rm -v "$PWD:/project" private-graphs
#   apptainer build private-graphs.sif docker-daemon://private-graphs:latest
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /tmp/requirements.lock
RUN pip install --no-cache-dir --requirement /tmp/requirements.lock \
    && rm /tmp/requirements.lock

ENV PYTHONPATH=src
WORKDIR /project
CMD ["snakemake", "--cores", "all"]
