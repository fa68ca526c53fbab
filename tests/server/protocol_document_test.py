"""The examples of docs/protocol.md, sent as they stand."""
import json
import os
import pathlib
import re

DOCUMENT = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"]) / "docs" / "protocol.md"
EXAMPLE = re.compile(r"```example (\d+) POST (\S+)\n(.*?)```", re.DOTALL)


def test_examples_give_the_status_they_name(daemon):
    examples = EXAMPLE.findall(DOCUMENT.read_text())
    assert len(examples) >= 5
    for status, path, body in examples:
        json.loads(body)  # else the 400 of an example could be for an end of the block that is missing
        answer = daemon.post(path, body.encode())
        if status == "200" and answer[0] == 400 and "no grammar library" in answer[2]["error"]["message"]:
            continue  # this build cannot constrain outputs
        assert answer[0] == int(status), (path, body, answer[2])


def test_every_error_code_of_the_table_exists_in_the_sources():
    text = DOCUMENT.read_text()
    table = text[text.index("## Errors") : text.index("## Who may connect")]
    codes = {code for row in table.splitlines() if row.startswith("| 4") or row.startswith("| 5") for code in re.findall(r"`([a-z_]+)`", row)}
    root = DOCUMENT.parent.parent
    sources = "".join(path.read_text() for folder in ("server", "protocol", "runtime/base") for path in (root / folder).rglob("*.?pp"))
    for code in codes:
        assert f'"{code}"' in sources, code
    named = set(re.findall(r'\{[45]\d\d, "[a-z_]+", "([a-z_]+)"', sources))
    assert len(named) > 20 and named <= codes, named - codes
