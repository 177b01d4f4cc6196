# The pinned packages of requirements.lock, and no code of the project: that is the checkout it is
# run in (docs/cluster.md). Every package has a wheel or is Python alone, so that nothing compiles.
#   docker build -t private-graphs . && docker run --rm -v "$PWD:/project" private-graphs
#   apptainer build private-graphs.sif docker-daemon://private-graphs:latest
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /tmp/requirements.lock
# Then the CUDA packages that torch, whose hash was checked, pins.
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/requirements.lock \
    && pip install --no-cache-dir torch \
    && rm /tmp/requirements.lock

ENV PYTHONPATH=src
WORKDIR /project
CMD ["snakemake", "--cores", "all"]
