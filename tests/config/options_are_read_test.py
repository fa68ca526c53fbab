"""Every option must be read by some code, because it would have no effect otherwise."""
import os
import pathlib
import re

ROOT = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"])


def test_each_option_is_read_outside_of_the_configuration():
    table = (ROOT / "config" / "option_table.cpp").read_text()
    members = re.findall(r"return o\.([\w.]+);", table)
    assert len(members) > 50
    sources = "".join(path.read_text() for room in ("runtime", "engine", "actors", "server", "apps") for path in (ROOT / room).rglob("*.?pp"))
    unread = [member for member in members if not re.search(r"(\.|->)" + member.split(".")[-1] + r"\b", sources)]
    assert not unread
