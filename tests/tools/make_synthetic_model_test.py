"""tools/make_synthetic_model.py: files of the shape and size that were asked for, which our loader opens and decodes."""
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

TOOL = Path(os.environ["PACELINE_SOURCE_DIR"]) / "tools" / "make_synthetic_model.py"
LOADER = Path(os.environ["PACELINE_BINARY_DIR"]) / "bin" / "tiny_model_tool"
PACELINE = os.environ["PACELINE_BIN"]

spec = importlib.util.spec_from_file_location("make_synthetic_model", TOOL)
tool = importlib.util.module_from_spec(spec)
sys.modules["make_synthetic_model"] = tool
spec.loader.exec_module(tool)


def made(path, *flags, shape="tiny"):
    subprocess.run([sys.executable, TOOL, path, "--shape", shape, *map(str, flags)], check=True, capture_output=True)
    return path


def opened(path):
    return json.loads(subprocess.run([LOADER, "open", path], check=True, capture_output=True, text=True).stdout)


def values(path):
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}


# What the publishers of the models count.
@pytest.mark.parametrize("shape, parameters", [("8b", 8030261248), ("1b", 1235814400), ("0.5b", 494032768), ("30b-a3b", 30532122624)])
def test_shapes_have_the_parameters_of_the_models_they_are_named_for(shape, parameters):
    tensors = tool.tensors_of(tool.SHAPES[shape], "bf16", 99, 1)
    assert sum(math.prod(t.shape) for t in tensors) == parameters


def test_an_8b_in_q4_k_has_the_bytes_of_its_blocks():
    tensors = tool.tensors_of(tool.SHAPES["8b"], "q4_k", 99, 1)
    head = 128256 * 4096
    assert {t.format for t in tensors} == {"f32", "q4_k", "q6_k"}
    blocks = (8030261248 - head - 65 * 4096) // 256
    assert sum(t.num_bytes for t in tensors) == blocks * 144 + head // 256 * 210 + 65 * 4096 * 4


@pytest.mark.parametrize("kind", ["bf16", "q4_k"])
def test_the_loader_opens_and_decodes_a_mixture(kind, tmp_path):
    path = made(tmp_path / "model.gguf", "--type", kind, shape="tiny-moe")
    shapes = {t["name"]: t["shape"] for t in opened(path)["tensors"]}
    assert shapes["blk.1.ffn_up_exps.weight"] == [8, 256, 256]
    done = subprocess.run([PACELINE, "run", "--model", path, "--prompt", "some words", "--max-tokens", "24", "--ignore-eos", "--json",
                           "--threads", "1"], capture_output=True, text=True, check=True)
    assert len(set(json.loads(done.stdout)["tokens"])) > 3
    cost = subprocess.run([PACELINE, "bench", "cost", "--model", path, "--threads", "1", "--repeats", "1", "--json"],
                          capture_output=True, text=True, check=True)
    assert "experts" in cost.stdout


@pytest.mark.parametrize("kind", ["bf16", "q4_k"])
def test_the_loader_opens_and_decodes_delta_rules_and_drafts_with_the_module(kind, tmp_path):
    path = made(tmp_path / "model.gguf", "--type", kind, shape="tiny-qwen35")
    assert opened(path)["config"]["mtp_modules"] == 1
    said = {}
    for drafter in ("none", "mtp"):
        done = subprocess.run([PACELINE, "run", "--model", path, "--drafter", drafter, "--prompt", "some words", "--max-tokens", "24", "--ignore-eos",
                               "--json", "--threads", "1"], capture_output=True, text=True, check=True)
        said[drafter] = json.loads(done.stdout)["tokens"]
    assert len(set(said["none"])) > 3 and said["mtp"] == said["none"]


def test_passes_of_a_mixture_read_more_experts_the_more_rows_they_have(tmp_path):
    path = made(tmp_path / "model.gguf", "--type", "q8_0", shape="tiny-moe")
    cost = subprocess.run([PACELINE, "bench", "cost", "--model", path, "--threads", "1", "--repeats", "1", "--rows", "1", "2", "64", "--json"],
                          capture_output=True, text=True, check=True)
    one, two, many = (row["weight_bytes"] for row in json.loads(cost.stdout)["passes"])
    expert = 3 * 256 * 256 // 32 * 34 * 3  # of all three layers
    assert abs(two - one - (3.5 - 2) * expert) < expert / 50  # of 8 experts a row uses 2, two rows 3.5
    assert abs(many - one - (8 - 2) * expert) < expert / 50


@pytest.mark.parametrize("kind", ["bf16", "q8_0", "q4_0", "q4_k"])
def test_the_loader_opens_and_decodes_it(kind, tmp_path):
    path = made(tmp_path / "model.gguf", "--type", kind)
    report = opened(path)
    assert report["config"]["num_layers"] == 3 and report["config"]["hidden_size"] == 256
    by_name = {t["name"]: t["type"] for t in report["tensors"]}
    assert by_name["blk.2.ffn_down.weight"] == kind.upper()
    assert by_name["output.weight"] == ("Q6_K" if kind == "q4_k" else kind.upper())
    assert by_name["blk.0.attn_norm.weight"] == "F32"
    done = subprocess.run([PACELINE, "run", "--model", path, "--prompt", "some words", "--max-tokens", "24", "--ignore-eos", "--json",
                           "--threads", "1"], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert len(said["tokens"]) == 24 and len(set(said["tokens"])) > 3  # a pass of NaN chooses one token for ever
    assert len(said["prompt_tokens"]) == len("some words")


@pytest.mark.parametrize("kind", ["bf16", "q8_0", "q4_0", "q4_k"])
def test_weights_are_noise_of_the_scale_of_their_rows(kind, tmp_path):
    for name, matrix in values(made(tmp_path / "model.gguf", "--type", kind)).items():
        if matrix.ndim == 2:
            deviation = matrix.std() * math.sqrt(matrix.shape[1])
            assert 0.7 < deviation < 1.45, name
            assert abs(matrix.mean()) < 0.08 * matrix.std(), name
        else:
            assert (matrix == 1).all(), name


def test_noise_depends_on_the_seed_and_the_tensor_alone(tmp_path):
    whole = made(tmp_path / "whole.gguf", "--type", "q8_0")
    assert made(tmp_path / "again.gguf", "--type", "q8_0").read_bytes() == whole.read_bytes()
    assert made(tmp_path / "other.gguf", "--type", "q8_0", "--seed", 2).read_bytes() != whole.read_bytes()
    first = values(made(tmp_path / "first.gguf", "--type", "q8_0", "--layers", 1))
    of_whole = values(whole)
    assert len(first) < len(of_whole)
    assert all(np.array_equal(v, of_whole[name]) for name, v in first.items())
    assert not np.array_equal(of_whole["blk.0.ffn_up.weight"], of_whole["blk.1.ffn_up.weight"])


def test_pieces_do_not_show(tmp_path, monkeypatch):
    tensor = tool.Tensor("name", (256, 64), "q4_k", 1.0)
    whole = np.concatenate(list(tensor.pieces(1)))
    assert whole.nbytes == tensor.num_bytes
    monkeypatch.setattr(tool, "PIECE_BYTES", 1000)
    pieces = list(tensor.pieces(1))
    assert len(pieces) > 5 and sum(p.nbytes for p in pieces) == tensor.num_bytes


def test_loud_layers_alone_are_a_drafter(tmp_path):
    target = made(tmp_path / "target.gguf", "--loud", 1)
    drafter = made(tmp_path / "drafter.gguf", "--loud", 1, "--layers", 1)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"{i} and more"}) + "\n" for i in range(4)))
    done = subprocess.run([PACELINE, "bench", "spec", "--model", target, "--draft-model", drafter, "--drafters", "model", "--lengths", "4",
                           "--workload", prompts, "--max-tokens", "32", "--threads", "1", "--json"], capture_output=True, text=True, check=True)
    arm = json.loads(done.stdout)["workloads"][0]["arms"][1]
    assert arm["alpha"] > 0.5 and arm["different_texts"] == 0


def test_wrong_layers_are_told(tmp_path):
    done = subprocess.run([sys.executable, TOOL, tmp_path / "x", "--shape", "tiny", "--layers", "4"], capture_output=True, text=True)
    assert done.returncode == 1 and "--layers must be 1 to 3" in done.stderr
