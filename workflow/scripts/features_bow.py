"""Make bag-of-words features of the texts of one dataset."""

from featured import build

build(snakemake, "bow")  # noqa: F821
