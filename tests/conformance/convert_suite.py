"""Converts Autobahn's test suite, which is Python 2, to Python 3: convert_suite.py SDIST FOLDER.

Byte strings stay strings of Python, one character (latin-1) a byte; run_suite.py encodes and decodes them at the wire.
lib2to3 does the rest, but for the substitutions below. Sections 12 and 13 (permessage-deflate, which the daemon does not
offer) are left out.
"""
import pathlib
import re
import sys
import tarfile
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from lib2to3.refactor import RefactoringTool, get_fixers_from_package

NEEDED = re.compile(r"[^/]+/autobahntestsuite/(caseset|_version|case/\w+)\.py$")
LEFT_OUT = re.compile(r"[cC]ase(1[23]_[xX]_[xX]|9_9_1)")  # the last one is not run by the suite either
HEX = "__import__('binascii').b2a_hex(%s.encode('latin-1')).decode()"
SUBSTITUTIONS = [
    # Equal values have equal pickles only while the interpreter shares the same strings.
    ("case/case.py", "pickle.dumps(obj1) == pickle.dumps(obj2)", "obj1 == obj2"),
    ("case/case10_1_1.py", "len(self.payload) / self.p", "len(self.payload) // self.p"),
    ("case/case6_x_x.py", "v.validate(vss[:i])", "v.validate(vss[:i].encode('latin-1'))"),
    ("case/case6_x_x.py", "binascii.b2a_hex(p[1])", HEX % "p[1]"),
]


def converted(name, text, tool):
    """The Python 3 source of a file whose bytes were decoded as latin-1."""
    for file, old, new in SUBSTITUTIONS:
        if file == name:
            if text.count(old) != 1:
                raise SystemExit(f"{name}: {old!r} is there {text.count(old)} times")
            text = text.replace(old, new)
    if name.startswith("case/case6_"):  # only descriptions
        text = re.sub(r"(?<!\.)binascii\.b2a_hex\((\w[\w.]*(?:\[[\d:]+\])?)\)", lambda m: HEX % m.group(1), text)
    if name == "case/__init__.py":
        text = "\n".join(line for line in text.splitlines() if not LEFT_OUT.search(line)) + "\n"
    text = text.replace("(object, Case, )", "(Case,)")
    text = re.sub(r"^#.*coding.*$", "#", text, flags=re.M)
    return "# coding: latin-1\n" + str(tool.refactor_string(text + "\n", name))


def main():
    sdist, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    tool = RefactoringTool(get_fixers_from_package("lib2to3.fixes"))
    package = folder / "autobahntestsuite"
    (package / "case").mkdir(parents=True)
    (package / "__init__.py").touch()
    with tarfile.open(sdist) as archive:
        files = {m.name.split("/", 2)[2]: archive.extractfile(m).read() for m in archive if NEEDED.match(m.name) and not LEFT_OUT.search(m.name)}
    for name in files:
        (package / name).touch()  # lib2to3 makes imports relative where it finds the file
    for name, data in files.items():
        text = converted(name, data.decode("latin-1"), tool)
        text = re.sub(r"^from (case\w*) import", r"from .\1 import", text, flags=re.M)
        (package / name).write_text(text, encoding="latin-1")
    print(f"converted {len(files)} files")


main()
