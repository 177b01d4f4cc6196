# The pinned packages of requirements.lock, and no code of the project: that is the checkout it is
# run in (docs/cluster.md).
#   docker build -t private-graphs . && docker run --rm -v "$PWD:/project" private-graphs
#   apptainer build private-graphs.sif docker-daemon://private-graphs:latest
FROM python:3.11-slim-bookworm

COPY requirements.lock /tmp/requirements.lock
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ libgomp1 \
    && pip install --no-cache-dir --requirement /tmp/requirements.lock \
    && apt-get purge --yes --auto-remove g++ \
    && rm -rf /var/lib/apt/lists/* /tmp/requirements.lock

ENV PYTHONPATH=src
WORKDIR /project
CMD ["snakemake", "--cores", "all"]
