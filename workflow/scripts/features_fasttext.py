"""Make fastText features of the texts of one dataset."""

from featured import build

build(snakemake, "fasttext")  # noqa: F821
