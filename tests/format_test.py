"""Every C++ file is as .clang-format has it, by the version that tests/requirements.txt names; every script can be run."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("PACELINE_SOURCE_DIR", Path(__file__).resolve().parent.parent))
CLANG_FORMAT = Path(sys.executable).with_name("clang-format")
ROOMS = ["actors", "apps", "bench", "config", "engine", "examples", "gpu", "protocol", "runtime", "server", "tests"]


def test_sources_are_formatted():
    if not CLANG_FORMAT.exists():
        pytest.skip(f"{CLANG_FORMAT} is missing: deploy/python_env.sh")
    files = [str(f) for room in ROOMS for f in sorted((ROOT / room).rglob("*")) if f.suffix in {".cpp", ".hpp", ".cu", ".cuh"}]
    assert len(files) > 500
    found = subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert found.returncode == 0, "clang-format -i: " + "\n".join(
        line for line in found.stderr.splitlines() if "clang-format-violations" in line)


def test_scripts_can_be_run():
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if kept.returncode != 0:
        pytest.skip("not a checkout")
    for name in filter(None, kept.stdout.split("\0")):
        file = ROOT / name
        if file.is_file() and file.open("rb").read(2) == b"#!":
            assert os.access(file, os.X_OK), name
