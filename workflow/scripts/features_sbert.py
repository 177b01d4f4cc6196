"""Make Sentence-BERT features of the texts of one dataset."""

from featured import build

build(snakemake, "sbert")  # noqa: F821
