"""What `cmake --install` installs in addition to the program: the service, the examples, the documents and the licenses."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["PACELINE_SOURCE_DIR"])
BUILD = Path(os.environ["PACELINE_BINARY_DIR"])


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    stage = tmp_path_factory.mktemp("stage")
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", "/opt/paceline"], env=os.environ | {"DESTDIR": str(stage)},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return stage / "opt/paceline"


def test_the_unit_starts_the_installed_program(prefix):
    installed = (prefix / "lib/systemd/system/paceline.service").read_text()
    original = (ROOT / "deploy/paceline.service").read_text()
    assert re.search(r"^ExecStart=(\S+)", installed, re.M)[1] == "/opt/paceline/bin/paceline"
    assert installed.replace("/opt/paceline/bin/", "/usr/local/bin/") == original
    assert os.access(prefix / "bin/paceline", os.X_OK)


@pytest.mark.parametrize("folder, program", [("bin", "/opt/paceline/bin/paceline"), ("libexec/a", "/opt/paceline/libexec/a/paceline"),
                                             ("/usr/sbin", "/usr/sbin/paceline")])
def test_the_unit_names_the_folder_of_programs(tmp_path, folder, program):
    subprocess.run(["cmake", "-DCMAKE_INSTALL_PREFIX=/opt/paceline", f"-DPACELINE_UNIT={ROOT}/deploy/paceline.service", f"-DPACELINE_BINDIR={folder}",
                    "-P", ROOT / "cmake/InstallUnit.cmake"], env=os.environ | {"DESTDIR": str(tmp_path)}, check=True, capture_output=True)
    unit = (tmp_path / "opt/paceline/lib/systemd/system/paceline.service").read_text()
    assert re.search(r"^ExecStart=(\S+)", unit, re.M)[1] == program


def test_a_grammar_library_without_license_files_is_installed(tmp_path):
    script = (BUILD / "cmake_install.cmake").read_text()
    if "share/NOTICE" not in script:
        pytest.skip("built without XGrammar")
    (tmp_path / "cmake_install.cmake").write_text(re.sub(r'"[^"]*/share/(LICENSE|NOTICE)"', r'"/nowhere/\1"', script))
    done = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={tmp_path}/prefix", "-P", tmp_path / "cmake_install.cmake"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples_and_documents_lie_where_the_readme_names_them(prefix):
    doc = prefix / "share/doc/paceline"
    for path in ("README.md", "CHANGELOG.md", "LICENSE", "docs/operations.md", "config/README.md", "config/schema.json",
                 "config/examples/daemon.yaml", "examples/embed/embed.cpp"):
        assert (doc / path).read_bytes() == (ROOT / path).read_bytes(), path
    named = set(re.findall(r"\]\(((?:docs|config|examples)[^)#]*)", (ROOT / "README.md").read_text()))
    assert len(named) > 8 and [path for path in named if not (doc / path).exists()] == []


def test_an_installed_example_starts(prefix):
    example = prefix / "share/doc/paceline/config/examples/development.yaml"
    done = subprocess.run([prefix / "bin/paceline", "check-config", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
