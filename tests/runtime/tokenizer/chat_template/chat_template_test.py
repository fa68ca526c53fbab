"""Templates, rendered by jinja2 and by us, must agree on every conversation: those of real models, in the repository and,
downloaded, beside the vocabularies (deploy/tokenizer_vocabularies.sh), and ours in the manner of more families
(templates_written)."""

import os
import pathlib

import pytest

from conversations import TOOLS, USER, all_variables
from jinja_oracle import Oracle, difference, render_all, transformers_environment

PROGRAM = os.path.join(os.environ["PACELINE_BINARY_DIR"], "bin", "chat_template_runner")
SOURCE = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"])
FIXTURES = SOURCE / "tests/fixtures"
OWN = sorted(FIXTURES.glob("templates*/*.jinja"))
DOWNLOADED = pathlib.Path(os.environ.get("PACELINE_TOKENIZER_DIR", SOURCE / ".cache/tokenizer_vocabularies")) / "templates"
# More templates and every combination of their variables, on demand.
MORE = os.environ.get("PACELINE_TEMPLATE_DIR")
OTHERS = sorted(DOWNLOADED.glob("*.jinja")) + sorted(pathlib.Path(MORE).glob("**/*.jinja") if MORE else [])
FILES = OWN + [file for file in OTHERS if file.name not in {own.name for own in OWN}]
CONVERSATIONS = list(all_variables(thorough=bool(MORE)))


class KeepingOracle(Oracle):
    """Keeps what it rendered of CONVERSATIONS, which two tests want: a long template takes 0.1 s."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def render(self, source, variables):
        case = (source, id(variables))
        if case not in self.kept:
            self.reason = None
            self.kept[case] = super().render(source, variables), self.reason
        text, self.reason = self.kept[case]
        return text


oracle_of_transformers = KeepingOracle()


def compare(source, oracle, options):
    ours = render_all(PROGRAM, [(source, variables) for _, variables in CONVERSATIONS], options)
    found = [f"{name}\n{told}" for (name, variables), result in zip(CONVERSATIONS, ours)
             if (told := difference(oracle, source, variables, result))]
    assert not found, f"{len(found)} of {len(CONVERSATIONS)} conversations differ, the first:\n{found[0]}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_renders_as_transformers_does(file):
    compare(file.read_text(encoding="utf-8"), oracle_of_transformers, {})


@pytest.mark.parametrize("file", FILES if MORE else OWN, ids=lambda file: file.stem)
def test_renders_as_a_plain_sandbox_does(file):
    compare(file.read_text(encoding="utf-8"),
            Oracle(transformers_environment(trim_blocks=False, lstrip_blocks=False, keep_trailing_newline=True,
                                            allow_mutation=True)),
            {"trim_blocks": False, "lstrip_blocks": False, "keep_trailing_newline": True, "allow_mutation": True})


def test_most_renderings_succeed():
    """A comparison in which both sides always fail would prove nothing."""
    texts = 0
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        texts += sum(oracle_of_transformers.render(source, variables) is not None for _, variables in CONVERSATIONS)
    assert texts > 0.5 * len(FILES) * len(CONVERSATIONS)


# How a prompt ends with reasoning on and off.
SWITCHES = {
    "Qwen3.5-4B": ("<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    "Qwen-Qwen3-0.6B": ("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    "HuggingFaceTB-SmolLM3-3B": ("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n\n</think>\n"),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_reasoning_is_switched_on_and_off(name):
    file = DOWNLOADED / f"{name}.jinja"
    if not file.exists():
        pytest.skip(f"no {file}")
    source = file.read_text(encoding="utf-8")
    asked = [(source, {"messages": [USER], "add_generation_prompt": True, **tools, **switch})
             for tools in (TOOLS["null_tools"], TOOLS["tools"])
             for switch in ({"enable_thinking": True}, {"enable_thinking": False}, {})]
    on, off = SWITCHES[name]
    for wanted, result in zip((on, off, on) * 2, render_all(PROGRAM, asked), strict=True):
        assert result["text"].endswith(wanted)
