"""`paceline inspect` of a draft head: alone, and for a target."""
import json
import os
import pathlib
import subprocess

import pytest
import torch
from safetensors.torch import save_file

PACELINE = os.environ["PACELINE_BIN"]
TINY_MODEL_TOOL = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin/tiny_model_tool"


def inspect(*arguments):
    return subprocess.run([PACELINE, "inspect", *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([TINY_MODEL_TOOL, "write", path], check=True)
    return path


@pytest.fixture
def head(target, tmp_path):
    """A Medusa head of one level for the target."""
    config = json.loads(inspect(target, "--json").stdout)["config"]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    save_file({"blocks.0.layers.0.weight": torch.zeros(hidden, hidden, dtype=torch.float16),
               "lm_heads.0.weight": torch.zeros(8, hidden, dtype=torch.float16),
               "token_map": torch.arange(8)}, tmp_path / "model.safetensors")
    return tmp_path, vocab


def test_a_head_is_shown_with_kind_and_types(head):
    done = inspect(head[0])
    assert done.returncode == 0 and "draft head" in done.stdout and "medusa" in done.stdout
    report = json.loads(inspect(head[0], "--json").stdout)
    assert report["head"]["kind"] == "medusa" and report["head"]["levels"] == 1
    assert {one["name"]: one["type"] for one in report["tensors"]}["token_map"] == "I64"


def test_a_head_is_loaded_for_the_target_that_is_named(head, target):
    report = json.loads(inspect(head[0], "--model", target, "--json").stdout)
    assert report["head"]["fits"] and report["head"]["drafted_tokens"] == 8 and report["problem"] is None
    assert report["head"]["default_draft_length"] == 1
    save_file({"blocks.0.layers.0.weight": torch.zeros(8, 8)}, head[0] / "model.safetensors")
    report = json.loads(inspect(head[0], "--model", target, "--json").stdout)
    assert not report["head"]["fits"] and "[8][8]" in report["problem"]


def test_a_folder_of_gguf_files_names_them(target):
    done = inspect(target.parent)
    assert done.returncode == 69 and done.stderr.strip().endswith("name one of its GGUF files: tiny.gguf")


def test_inputs_of_rows_are_read_for_the_target_that_is_named(head, target, tmp_path):
    folder, hidden = tmp_path / "rows", json.loads(inspect(target, "--json").stdout)["config"]["hidden_size"]
    folder.mkdir()
    save_file({"lookahead.weight": torch.zeros(4, hidden)}, folder / "model.safetensors")
    found = json.loads(inspect(folder, "--model", target, "--json").stdout)["head"]
    assert (found["kind"], found["levels"], found["fits"], found["default_draft_length"]) == ("pass", 4, True, 4)
    save_file({"lookahead.weight": torch.zeros(4, hidden + 1)}, folder / "model.safetensors")
    report = json.loads(inspect(folder, "--model", target, "--json").stdout)
    assert not report["head"]["fits"] and "lookahead.weight" in report["problem"]


def test_a_model_is_no_head(target):
    assert json.loads(inspect(target, "--json").stdout)["head"] is None
    done = inspect(target, "--model", target)
    assert done.returncode != 0 and "general.architecture" in done.stderr
