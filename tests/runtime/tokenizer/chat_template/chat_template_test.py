"""Templates, rendered by jinja2 and by us, must agree on every conversation: those of real models, and ours in the
manner of more families (templates_written)."""

import os
import pathlib

import pytest

from conversations import all_variables
from jinja_oracle import Oracle, difference, render_all, transformers_environment

PROGRAM = os.path.join(os.environ["PACELINE_BINARY_DIR"], "bin", "chat_template_runner")
FIXTURES = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"], "tests", "fixtures")
# More templates and every combination of their variables, on demand.
MORE = os.environ.get("PACELINE_TEMPLATE_DIR")
FILES = sorted(FIXTURES.glob("templates*/*.jinja")) + (sorted(pathlib.Path(MORE).glob("**/*.jinja")) if MORE else [])
CONVERSATIONS = list(all_variables(thorough=bool(MORE)))


def compare(source, environment, options):
    oracle = Oracle(environment)
    ours = render_all(PROGRAM, [(source, variables) for _, variables in CONVERSATIONS], options)
    found = [f"{name}\n{told}" for (name, variables), result in zip(CONVERSATIONS, ours)
             if (told := difference(oracle, source, variables, result))]
    assert not found, f"{len(found)} of {len(CONVERSATIONS)} conversations differ, the first:\n{found[0]}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_renders_as_transformers_does(file):
    compare(file.read_text(encoding="utf-8"), transformers_environment(), {})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_renders_as_a_plain_sandbox_does(file):
    compare(file.read_text(encoding="utf-8"),
            transformers_environment(trim_blocks=False, lstrip_blocks=False, keep_trailing_newline=True,
                                     allow_mutation=True),
            {"trim_blocks": False, "lstrip_blocks": False, "keep_trailing_newline": True, "allow_mutation": True})


def test_most_renderings_succeed():
    """A comparison in which both sides always fail would prove nothing."""
    texts = 0
    for file in FILES:
        oracle = Oracle()
        source = file.read_text(encoding="utf-8")
        texts += sum(oracle.render(source, variables) is not None for _, variables in CONVERSATIONS)
    assert texts > 0.5 * len(FILES) * len(CONVERSATIONS)
