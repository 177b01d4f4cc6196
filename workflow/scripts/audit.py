"""Attack one mechanism; fail where the attack shows more than is proved."""

from pathlib import Path

from job import reported
from warm import handed_over


def main(snake):
    """Unpack the job, attack, and write what was shown."""
    if handed_over(snake):
        return
    from private_graphs.attacks.audit import require_unbroken, run_job
    from private_graphs.files import MANIFEST, sha256_of, write_json
    from private_graphs.jobs import AUDIT_FILE, Job
    from private_graphs.verify import finish

    job = Job.model_validate_json(snake.params.job)
    folder = Path(snake.output.manifest).parent
    with reported(f"audited {job.id}", snake.log[0], times=snake.params.times) as log:
        audit = run_job(job, threads=snake.threads)
        require_unbroken(audit)
        write_json(folder / AUDIT_FILE, audit.document())
        write_json(folder / MANIFEST, {"sha256": {AUDIT_FILE: sha256_of(folder / AUDIT_FILE)}})
        finish(folder, job, [])
        log.note(f"epsilon > {audit.lower():.2f} without any assumption")


main(snakemake)  # noqa: F821
