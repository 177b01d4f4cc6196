"""Counts, sizes and files that nobody means are refused before anything is allocated or read."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pydantic import ValidationError

from private_graphs.core.errors import UserError
from private_graphs.core.limits import MOST_LINE_BYTES
from private_graphs.running.jobs import Attack
from private_graphs.running.study import Entry, Run

SHELL = """
import contextlib, io, json, resource, sys, time
from private_graphs.cli import main
import private_graphs.cli.train, private_graphs.documents.release, private_graphs.attacks.audit
import private_graphs.cli.train, torch  # imports are no work of a command
(mapped,) = (int(line.split()[1]) for line in open("/proc/self/status") if "VmSize" in line)
resource.setrlimit(resource.RLIMIT_AS, ((mapped + 2_000_000) * 1024,) * 2)  # CUDA's torch maps GBs
answers = []
for arguments in json.load(sys.stdin):
    told, started = io.StringIO(), time.process_time()
    with contextlib.redirect_stderr(told):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code
    answers.append((code, time.process_time() - started, told.getvalue()))
json.dump(answers, sys.stdout)
"""
HUGE = str(10**12)
TRAIN = ("train", "--dataset", "synthetic-npz", "--epsilon", "2")
DECLARE = ("declare", "x", "--text", "t", "--label", "l", "--classes", "a,b", "--budget", "4")
EPSILON = ("epsilon", "--noise-multiplier", "1")
REFUSED = [
    ((*TRAIN, "--seeds", "1000000000"), "--seeds"),
    ((*TRAIN, "--seed", "-1"), "--seed"),
    ((*TRAIN, "--seed", "1" + "0" * 30), "--seed"),
    ((*TRAIN, "--threads", "0"), "--threads"),
    ((*TRAIN, "--threads", HUGE), "--threads"),
    ((*TRAIN, "--epochs", HUGE), "--epochs is '1000000000000'; expected at most 1,000,000"),
    ((*TRAIN, "--epochs", "0"), "--epochs"),
    ((*TRAIN, "--splits", HUGE), "--splits"),
    ((*TRAIN, "--set", "hidden=1" + "0" * 40), "--set hidden"),
    ((*TRAIN, "--lr", "1e400"), "--lr"),
    ((*TRAIN, "--set", "hidden=1000000"), "MB of memory; found"),
    ((*TRAIN, "--delta", "1e-320"), "--delta"),
    ((*TRAIN[:3], "--noise-multiplier", "1e300"), "--noise-multiplier"),
    ((*TRAIN[:3], "--epsilon", "1e400"), "expected inf for no DP"),
    (("classify", "x", "--epsilon", "+1E+999"), "--epsilon is inf; expected a number above 0"),
    ((*TRAIN, "--method", "edge_votes", "--max-edges", "1" + "0" * 400), "--max-edges"),
    (("audit", "--protocol", "sound", "--runs", HUGE), "--runs"),
    (("audit", "--protocol", "sound", "--splits", "100000"), "splits is 100000"),
    (("audit", "--method", "class_sums", "--classes", HUGE), "--classes"),
    (("audit", "--replay", "--neighbours", HUGE), "--neighbours"),
    (("audit", "--scores", "/dev/zero", "/dev/zero"), "/dev/zero: has more than"),
    ((*EPSILON, "--steps", "1" + "0" * 400), "steps"),
    ((*EPSILON, "--epochs", "1", "--batch-size", "1", "--n", "1" + "0" * 400), "n <= "),
    ((*EPSILON, "--steps", "1", "--group", HUGE), "--group"),
    (("epsilon", "--noise-multiplier", "1e400", "--steps", "1"), "noise multiplier is inf"),
    (("epsilon", "--events", "/dev/zero"), "/dev/zero: has more than"),
    (("noise", "--epsilon", "1e400", "--steps", "1"), "epsilon is inf"),
    ((*DECLARE, "--nodes", "/dev/zero"), "is a folder, pipe or device"),
    ((*DECLARE, "--nodes", "/proc/self/status"), "is a folder, pipe or device"),
    ((*DECLARE, "--nodes", "line.csv"), "line.csv: a line has more than"),
    ((*DECLARE, "--nodes", "terabyte.csv"), "terabyte.csv: has 1,000,000,000,000 bytes"),
    ((*DECLARE, "--nodes", "rows.parquet"), "rows.parquet: declares 1,000,000,000,000 rows"),
    ((*DECLARE, "--nodes", "cells.parquet"), "cells.parquet: declares 600,000,000 rows"),
    ((*DECLARE, "--nodes", "packed.parquet"), "packed.parquet: declares 5,000,000 rows"),
    ((*DECLARE, "--nodes", "bomb.parquet"), " bytes unpack to 10,00"),
    ((*DECLARE, "--nodes", "small.parquet", "--edges", "/dev/zero"), "is a folder, pipe or device"),
    ((*DECLARE, "--nodes", "small.parquet", "--max-per-unit", HUGE), "--max-per-unit"),
    ((*DECLARE, "--nodes", "small.parquet", "--delta", "1e-320"), "at least 1e-300"),
    (("explain", "terabyte.csv"), "terabyte.csv: has"),
]  # fmt: skip


def _files(folder: Path) -> None:
    """Tables that ask for more than they hold."""
    for name, size in (("terabyte.csv", 10**12), ("line.csv", 2**30)):
        with open(folder / name, "wb") as stream:
            stream.write(b"id,t,l\n")
            stream.truncate(size)  # a hole: no byte of it is on the disk
    columns = {"id": ["1", "2"], "t": ["a", "b"], "l": ["a", "b"]}
    pyarrow.parquet.write_table(pa.table(columns), folder / "small.parquet")
    data = (folder / "small.parquet").read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    before, rows, after = data[-8 - length : -8].partition(b"\x16\x04\x19")
    assert rows and len(after) > len(before)  # the number of rows, then their groups
    for name, count in (("rows", 10**12), ("cells", 6 * 10**8), ("packed", 5 * 10**6)):
        footer = before + b"\x16" + _zigzag(count) + b"\x19" + after
        (folder / f"{name}.parquet").write_bytes(
            data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"
        )
    once = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["a" * 10**6])
    columns = {"id": pa.array(map(str, range(10_000))), "t": once, "l": ["a"] * 10_000}
    pyarrow.parquet.write_table(pa.table(columns), folder / "bomb.parquet")


def _zigzag(value: int) -> bytes:
    """A number in Thrift's compact protocol."""
    value, digits = 2 * value, bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def test_what_nobody_means_is_refused_in_two_seconds_and_two_gigabytes(root, tmp_path):
    _files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SHELL], cwd=tmp_path, capture_output=True, text=True, check=True,
        input=json.dumps([arguments for arguments, _ in REFUSED]),
    )  # fmt: skip
    for (arguments, words), (code, seconds, told) in zip(
        REFUSED, json.loads(done.stdout), strict=True
    ):
        assert code == 2 and words in told and "defect" not in told, (arguments, code, told)
        assert seconds <= 2, (arguments, seconds)


@pytest.mark.parametrize(
    "raw",
    [
        {"seeds": 10**9}, {"seeds": [10**30]}, {"seeds": "-1"}, {"splits": 0}, {"splits": "1e9"},
        {"batch_minutes": 0}, {"batch_minutes": float("nan")}, {"seeds": "9" * 5000},
        {"mirror": "9" * 400}, {"mirror": "~nobody/x"},
    ],
)  # fmt: skip
def test_a_configuration_is_refused_likewise(raw):
    with pytest.raises(UserError, match=next(iter(raw))):
        Run.parse(raw)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (Entry, {"methods": ["gcn"], "epsilons": [1], "seeds": 10**9}),
        (Entry, {"methods": ["gcn"], "epsilons": [1], "vary": {n: range(10) for n in "abcde"}}),
        (Attack, {"runs": 10**9}),
    ],
)  # fmt: skip
def test_a_study_file_is_refused_likewise(model, given):
    with pytest.raises(ValidationError, match="at most|less than or equal"):
        model.model_validate(given)


def test_a_line_of_the_accepted_length_is_read(tmp_path):
    from private_graphs.datasets.own_tables import read_table

    path = tmp_path / "long.csv"
    path.write_text(f"id,t\n1,{'a' * (MOST_LINE_BYTES - 10)}\n")
    assert read_table(path, {"id": "id", "text": "t"}).n_rows == 1
