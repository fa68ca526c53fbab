"""tools/convert_head.py writes the tensors that were pickled, and runs no code of a pickle."""

import collections
import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

TOOL = Path(os.environ["PACELINE_SOURCE_DIR"]) / "tools" / "convert_head.py"

spec = importlib.util.spec_from_file_location("convert_head", TOOL)
convert_head = importlib.util.module_from_spec(spec)
spec.loader.exec_module(convert_head)


def medusa():
    """Two heads of two layers, which are one layer as in the reference code."""
    tensors = collections.OrderedDict()
    for head in range(2):
        weight, bias = torch.randn(8, 8), torch.randn(8)
        for layer in range(2):
            tensors[f"{head}.{layer}.linear.weight"] = weight
            tensors[f"{head}.{layer}.linear.bias"] = bias
        tensors[f"{head}.2.weight"] = torch.randn(16, 8).to(torch.float16)
    return tensors


def written(folder):
    return load_file(folder / "model.safetensors")


def assert_equal(tensors, expected):
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        assert tensors[name].dtype == value.dtype and torch.equal(tensors[name], value), name


@pytest.mark.parametrize("file", ["medusa_lm_head.pt", "hydra_lm_head.pt", "pytorch_model.bin"])
def test_a_directory_keeps_names_values_and_config(tmp_path, file):
    source = tmp_path / "source"
    source.mkdir()
    torch.save(medusa(), source / file)
    (source / "config.json").write_text('{"medusa_num_heads": 2}')
    result = subprocess.run([sys.executable, TOOL, source, tmp_path / "head"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert_equal(written(tmp_path / "head"), torch.load(source / file, weights_only=True))
    assert (tmp_path / "head" / "config.json").read_text() == '{"medusa_num_heads": 2}'
    assert sorted(path.name for path in (tmp_path / "head").iterdir()) == ["config.json", "model.safetensors"]


def test_a_part_of_a_larger_tensor_is_written_alone(tmp_path):
    whole = torch.randn(6, 8)
    torch.save({"rows": whole[2:4], "transposed": whole.t()}, tmp_path / "head.pt")
    convert_head.convert(tmp_path / "head.pt", tmp_path / "head")
    assert_equal(written(tmp_path / "head"), {"rows": whole[2:4], "transposed": whole.t()})
    assert (tmp_path / "head" / "model.safetensors").stat().st_size < 1000


def test_shards_are_joined(tmp_path):
    tensors = medusa()
    names = list(tensors)
    torch.save({name: tensors[name] for name in names[:3]}, tmp_path / "a.bin")
    torch.save({name: tensors[name] for name in names[3:]}, tmp_path / "b.bin")
    weight_map = {name: "a.bin" if i < 3 else "b.bin" for i, name in enumerate(names)}
    (tmp_path / convert_head.INDEX).write_text(json.dumps({"weight_map": weight_map}))
    convert_head.convert(tmp_path, tmp_path / "head")
    assert_equal(written(tmp_path / "head"), tensors)
    (tmp_path / convert_head.INDEX).write_text(json.dumps({"weight_map": {"x": "../a.bin"}}))
    with pytest.raises(convert_head.Refusal, match="outside the directory"):
        convert_head.convert(tmp_path, tmp_path / "head")


def test_types_are_converted_if_no_value_changes(tmp_path):
    torch.save({"d2t": torch.arange(4, dtype=torch.int32), "w": torch.ones(2, 2, dtype=torch.float64)}, tmp_path / "h.pt")
    convert_head.convert(tmp_path / "h.pt", tmp_path / "head")
    assert_equal(written(tmp_path / "head"), {"d2t": torch.arange(4), "w": torch.ones(2, 2)})
    convert_head.convert(tmp_path / "h.pt", tmp_path / "head", torch.float16)
    assert_equal(written(tmp_path / "head"), {"d2t": torch.arange(4), "w": torch.ones(2, 2, dtype=torch.float16)})
    torch.save({"w": torch.tensor([0.1], dtype=torch.float64)}, tmp_path / "h.pt")
    with pytest.raises(convert_head.Refusal, match="does not fit"):
        convert_head.convert(tmp_path / "h.pt", tmp_path / "head")
    torch.save({"w": torch.ones(2, dtype=torch.complex64)}, tmp_path / "h.pt")
    with pytest.raises(convert_head.Refusal, match="not supported"):
        convert_head.convert(tmp_path / "h.pt", tmp_path / "head")


class Malicious:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", ["torch", "torch, old", "pickle"])
def test_a_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path, protocol):
    sign = tmp_path / "was run"
    tensors = {"w": torch.ones(2), "more": Malicious(sign)}
    if protocol == "pickle":
        (tmp_path / "head.pt").write_bytes(pickle.dumps(tensors))
    else:
        torch.save(tensors, tmp_path / "head.pt", _use_new_zipfile_serialization=protocol == "torch")
    result = subprocess.run([sys.executable, TOOL, tmp_path / "head.pt", tmp_path / "head"], capture_output=True, text=True)
    assert result.returncode == 1 and "is refused" in result.stderr, result.stderr
    assert "Traceback" not in result.stderr
    assert not sign.exists() and not (tmp_path / "head").exists()


@pytest.mark.parametrize("content", [[torch.ones(2)], {"epoch": 3, "w": torch.ones(2)}, {}, torch.ones(2), {1: torch.ones(2)}])
def test_what_is_no_state_dict_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "head.pt")
    with pytest.raises(convert_head.Refusal, match="head.pt"):
        convert_head.convert(tmp_path / "head.pt", tmp_path / "head")
    assert not (tmp_path / "head").exists()


def test_a_wrapped_state_dict_is_read(tmp_path):
    torch.save({"state_dict": {"w": torch.ones(2)}, "epoch": 3}, tmp_path / "head.pt")
    convert_head.convert(tmp_path / "head.pt", tmp_path / "head")
    assert_equal(written(tmp_path / "head"), {"w": torch.ones(2)})


def test_files_that_cannot_be_read_are_told(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"no pickle")
    for source, message in ((tmp_path / "a.pt", "a.pt"), (tmp_path / "none.pt", "no such file")):
        with pytest.raises(convert_head.Refusal, match=message):
            convert_head.convert(source, tmp_path / "head")
    (tmp_path / "b.bin").write_bytes(b"")
    with pytest.raises(convert_head.Refusal, match="2 files"):
        convert_head.convert(tmp_path, tmp_path / "head")
