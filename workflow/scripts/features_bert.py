"""Make BERT features of the texts of one dataset."""

from featured import build

build(snakemake, "bert")  # noqa: F821
