"""Write the verdicts on the claims of papers that recorded runs give."""

from pathlib import Path

from job import reported


def main(snake):
    """Write ``<study>.csv`` for every recorded study."""
    from private_graphs.exhibits import claims_of
    from private_graphs.report.claims import write_claims
    from private_graphs.report.shelf import recorded_shelves

    folder = Path(snake.output[0]).parent
    with reported("recorded_claims", snake.log[0]) as log:
        for shelf in recorded_shelves("recorded"):
            claims = claims_of(shelf.results.study.id)
            log.note(str(write_claims(claims, shelf.results, folder)))


main(snakemake)  # noqa: F821
