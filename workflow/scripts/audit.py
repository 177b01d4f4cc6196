"""Attack one mechanism; fail where the attack shows more than is proved."""

from job import reported


def main(job):
    """Unpack the plan, attack, and write what was found."""
    from private_graphs.attacks.audit import require_unbroken, run_planned
    from private_graphs.cells import read_audit_plan
    from private_graphs.files import write_json

    plan = read_audit_plan(job.params.plan)
    with reported(f"audited {plan.name}", job.log[0]) as note:
        found = run_planned(plan, threads=job.threads)
        require_unbroken(found)
        write_json(job.output[0], found.document())
        note(f"epsilon > {found.lower():.2f} without any assumption, {2 * plan.runs} runs")


main(snakemake)  # noqa: F821
