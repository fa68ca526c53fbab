"""tools/make_drafter.py writes what was requested, and the C++ loader opens it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

TOOL = Path(os.environ["PACELINE_SOURCE_DIR"]) / "tools" / "make_drafter.py"
LOADER = Path(os.environ["PACELINE_BINARY_DIR"]) / "bin" / "tiny_model_tool"

spec = importlib.util.spec_from_file_location("make_drafter", TOOL)
make_drafter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_drafter)


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "target.gguf"
    subprocess.run([LOADER, "write", path], check=True)
    return path


def run(*arguments):
    return subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True)


def opened(path):
    """The report of our loader on a file it must be able to run."""
    return json.loads(subprocess.run([LOADER, "open", path], check=True, capture_output=True, text=True).stdout)


def types(report):
    return {tensor["name"]: tensor["type"] for tensor in report["tensors"]}


def test_a_plain_copy_is_the_same_file(target, tmp_path):
    copy = tmp_path / "copy.gguf"
    assert run(target, copy).returncode == 0
    assert copy.read_bytes() == target.read_bytes()


def test_layers_keeps_the_first_ones(target, tmp_path):
    drafter = tmp_path / "drafter.gguf"
    assert run(target, drafter, "--layers", 2).returncode == 0
    report = opened(drafter)
    assert report["config"]["num_layers"] == 2
    whole = opened(target)
    assert report["tensors"] == [t for t in whole["tensors"] if not t["name"].startswith("blk.2.")]
    source = {t.name: t.data.tobytes() for t in gguf.GGUFReader(target).tensors}
    assert all(t.data.tobytes() == source[t.name] for t in gguf.GGUFReader(drafter).tensors)


def test_type_falls_back_where_rows_are_not_whole_blocks(target, tmp_path):
    drafter = tmp_path / "drafter.gguf"
    assert run(target, drafter, "--type", "q2_k").returncode == 0
    present = types(opened(drafter))
    assert present["blk.0.ffn_down.weight"] == "Q2_K"  # rows of 256
    assert present["blk.0.ffn_up.weight"] == "Q4_0"  # rows of 96
    assert present["blk.0.attn_norm.weight"] == "F32"
    assert present["token_embd.weight"] == "Q8_0"  # gives the logits


def test_both_options_work_together(target, tmp_path):
    drafter = tmp_path / "drafter.gguf"
    assert run(target, drafter, "--layers", 1, "--type", "f16").returncode == 0
    report = opened(drafter)
    assert report["config"]["num_layers"] == 1
    assert types(report)["blk.0.attn_q.weight"] == "F16"


def test_wrong_arguments_and_files_are_told(target, tmp_path):
    for layers in (0, 4, -1):
        result = run(target, tmp_path / "drafter.gguf", "--layers", layers)
        assert result.returncode == 1 and "--layers must be 1 to 3" in result.stderr
    assert run(tmp_path / "none.gguf", tmp_path / "drafter.gguf").returncode == 1
    assert not (tmp_path / "drafter.gguf").exists()


@pytest.mark.parametrize(
    "kind, largest_error",
    [("normal", 0.29), ("positive", 0.15), ("negative", 0.15), ("outliers", 0.25), ("zero", 0.0)],
)
def test_q2_k_is_close(kind, largest_error):
    """Relative root-mean-square error, read back by gguf's own decoder. Four even levels over a normal distribution leave
    0.345 at best; scales and minimums per 16 values must do better."""
    random = np.random.default_rng(5)
    values = random.standard_normal((32, 512), dtype=np.float32)
    values = {
        "normal": values,
        "positive": np.abs(values) + 1,
        "negative": -np.abs(values) - 1,
        "outliers": values * np.where(random.random(values.shape) < 0.01, 30, 1).astype(np.float32),
        "zero": values * 0,
    }[kind]
    blocks = make_drafter.quantize_q2_k(values)
    assert blocks.shape == (64, 84)
    back = gguf.quants.dequantize(blocks.reshape(32, -1), gguf.GGMLQuantizationType.Q2_K)
    error = np.sqrt(((back - values) ** 2).sum() / max((values**2).sum(), 1e-30))
    assert error <= largest_error
