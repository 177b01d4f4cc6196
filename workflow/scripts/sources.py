"""Supply every raw file that the run needs; write one receipt per dataset."""

from pathlib import Path

from job import reported, say


def stamped(record, raw):
    """Add size and time of a raw file, by which a later run sees that it was changed."""
    status = (raw / record["file"]).stat()
    return {**record, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def main(job):
    """Supply all datasets at once, so that one message lists everything that is missing."""
    from private_graphs.core.files import write_json
    from private_graphs.datasets.sources import raw_records, supply

    raw = Path("data/raw")
    names = [Path(path).stem for path in job.output.receipts]
    say(f"raw files of {', '.join(names)} (log: {job.log[0]})")
    with reported("raw files", job.log[0]) as log:
        supply(names, raw, job.config.get("mirror"), progress=log.progress)
        for name, receipt in zip(names, job.output.receipts, strict=True):
            files = [stamped(each.model_dump(mode="json"), raw) for each in raw_records(name, raw)]
            write_json(receipt, {"dataset": name, "files": files})
        log.note(f"{', '.join(names)} in {raw}")


main(snakemake)  # noqa: F821
