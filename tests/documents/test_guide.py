"""The commands and the Python of docs/your-own-graph.md run, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


def test_the_guide_runs_as_it_is_written(run, root, data, tmp_path, capsys):
    page = (root / "docs" / "your-own-graph.md").read_text(encoding="utf-8")
    page = re.sub(r" \\\n +", " ", page)  # a command may go on in further lines
    shutil.copytree(root / "examples", tmp_path / "examples")
    seen = []
    for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).+\n)*)", block, re.MULTILINE):
            program, *arguments = shlex.split(command)
            if program == "private-graphs":
                answer = run(*arguments)
                assert answer.code == 0, (command, answer.err)
                assert not printed or answer.out == printed, command
                seen.append(arguments[0])
            else:
                program = sys.executable if program == "python" else program
                subprocess.run([program, *arguments], check=True)
    assert set(seen) == {"declare", "classify", "predict", "explain", "ledger", "attack"}
    [code] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(code, "your-own-graph.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert "standard error" in said[0] or "Cannot tell" in said[0]
    assert 2.0 < float(said[-1]) < 2.4, "both releases together, for a patient in each"
    assert Path("march/release/report.html").is_file()
