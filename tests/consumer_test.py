"""Installs the build and builds and runs examples/embed against the installed tree."""
import os
import subprocess
from pathlib import Path

ROOT = Path(os.environ["PACELINE_SOURCE_DIR"])
BUILD = Path(os.environ["PACELINE_BINARY_DIR"])


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=800, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_program_embeds_the_installed_library(tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    run("cmake", "-S", ROOT / "examples/embed", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", tmp_path / "build")
    printed = run(tmp_path / "build/embed", "hash")
    half = len(printed) // 2
    assert half > 10 and printed[:half] == printed[half:], "both actor systems give the same text"


def test_public_headers_show_no_dependency(tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    headers = list((prefix / "include/paceline").rglob("*.hpp"))
    assert len(headers) >= 9
    for header in headers:
        for foreign in ("boost/", "caf/", "yaml-cpp", "spdlog", "pcre2"):
            assert f"#include <{foreign}" not in header.read_text(), header
        unit = tmp_path / "alone.cpp"
        unit.write_text(f'#include "{header.relative_to(prefix / "include/paceline")}"\n')
        run("c++", "-std=c++20", "-fsyntax-only", f"-I{prefix}/include/paceline", unit)
