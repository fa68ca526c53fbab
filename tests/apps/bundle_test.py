"""deploy/bundle.sh: its programs find their libraries in the bundle and run with them."""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(os.environ["PACELINE_SOURCE_DIR"])
BIN = Path(os.environ["PACELINE_BINARY_DIR"]) / "bin"
OF_THE_MACHINE = re.compile(r"lib(c|m|pthread|dl|rt|stdc\+\+|gcc_s)\.so")


def test_a_bundle_brings_its_libraries(tmp_path):
    folder = tmp_path / "bundle"
    subprocess.run([ROOT / "deploy/bundle.sh", folder, "paceline"], check=True, env={**os.environ, "PACELINE_BIN_DIR": str(BIN)})
    moved = folder.rename(tmp_path / "elsewhere")
    said = subprocess.run(["ldd", moved / "paceline"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(\S+) => (/\S+)", said))
    theirs = {name: path for name, path in found.items() if not OF_THE_MACHINE.match(name)}
    assert "libcaf_core.so.0.17.6" in theirs and len(theirs) > 4
    assert {name: str(Path(path).parent) for name, path in theirs.items()} == {name: str(moved / "lib") for name in theirs}
    assert subprocess.run([moved / "paceline", "--version"], capture_output=True, text=True, check=True).stdout
    assert (moved / "paceline").stat().st_size <= (BIN / "paceline").stat().st_size


def test_it_says_what_it_wants():
    done = subprocess.run([ROOT / "deploy/bundle.sh"], capture_output=True, text=True)
    assert done.returncode != 0 and "FOLDER" in done.stderr
