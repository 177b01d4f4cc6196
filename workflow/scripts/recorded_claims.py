"""Write the verdicts on the claims of papers that recorded runs give."""

import os
from pathlib import Path

from job import reported


def main(snake):
    """Write ``<study>.csv`` for every recorded study with claims."""
    from private_graphs.report.claims import write_claims
    from private_graphs.report.shelf import recorded_shelves
    from private_graphs.studies import claims_of
    from private_graphs.verify import write_hashes

    folder = Path(snake.output.manifest).parent
    with reported("recorded_claims", snake.log[0]) as log:
        written = []
        for shelf in recorded_shelves("recorded"):
            if claims := claims_of(shelf.results.study.id):
                written.append(write_claims(claims, shelf.results, folder))
                log.note(str(written[-1]))
        for path in {*folder.glob("*.csv")} - {*written}:  # of a study that is recorded no more
            path.unlink()
        judged = [os.path.relpath(path, folder) for path in snake.input.recorded]
        write_hashes(folder, [*(path.name for path in written), *judged], made_from=[])


main(snakemake)  # noqa: F821
