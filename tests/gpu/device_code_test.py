"""What nvcc made of the kernels, read as PTX: things that no run on the host would show."""
import os
import re
import subprocess

import pytest

ROOT = os.environ["PACELINE_SOURCE_DIR"]
NVCC = os.environ.get("PACELINE_NVCC", "")
FLAGS = os.environ.get("PACELINE_NVCC_FLAGS", "").split(",")

pytestmark = pytest.mark.skipif(not NVCC, reason="there is no nvcc")


def ptx_of(source, tmp_path):
    out = tmp_path / "kernels.ptx"
    subprocess.run([NVCC, *FLAGS, "-arch=sm_90", "-ptx", str(source), "-o", str(out)], check=True)
    return out.read_text()


def entries(ptx):
    """Body of each kernel, by its mangled name."""
    return dict(re.findall(r"\.entry (\w+)\(.*?\)[^{]*?\{(.*?)\n\}", ptx, re.S))


def holes(body):
    """Labels that nothing follows: code that nvcc took for unreachable and left out."""
    lines = [l.strip() for l in body.split("\n") if l.strip() and not l.strip().startswith(("//", ".loc"))]
    ends = ("ret;", "bra ", "bra.uni", "exit;", "trap;")
    found = [a for a, b in zip(lines, lines[1:]) if a.startswith("$") and b.startswith("$")]
    if not any(e in lines[-1] for e in ends):
        found.append(lines[-1])
    return found


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return entries(ptx_of(os.path.join(ROOT, "gpu/kernels/device_kernels.cu"), tmp_path_factory.mktemp("ptx")))


def test_every_kernel_is_there(kernels):
    text = open(os.path.join(ROOT, "gpu/kernels/params.hpp")).read()
    names = re.search(r"enum class kernel_id.*?\{(.*?)\}", text, re.S).group(1).replace(",", " ").split()
    assert len(names) > 10
    for name in names:
        assert sum(f"{len(name)}{name}E" in k for k in kernels) == 1, name
    assert len(kernels) == len(names)


def test_nothing_was_left_out_as_unreachable(kernels):
    assert {k: holes(b) for k, b in kernels.items() if holes(b)} == {}


def test_a_hole_is_found(tmp_path):
    source = tmp_path / "hole.cu"
    source.write_text('#include "runtime/device/tensor_type.hpp"\n'
                      "__global__ void k(paceline::device::tensor_type t, unsigned* out) {\n"
                      "  *out = paceline::device::traits_of(t)->block_bytes;\n}\n")
    bodies = entries(ptx_of(source, tmp_path))
    assert len(bodies) == 1 and holes(*bodies.values())


def test_roundings_are_those_that_are_written(kernels):
    for name, body in kernels.items():
        for line in body.split("\n"):
            assert not re.search(r"\.(approx|ftz|full)\b", line), f"{name}: {line}"
            if re.search(r"\b(add|sub|mul|fma|div|sqrt|rcp)\b.*\.f(32|64)\b", line):
                assert ".rn" in line, f"{name}: {line}"  # without it, the assembler may still fuse


def test_no_kernel_calls_a_function_that_is_not_there(kernels):
    for name, body in kernels.items():
        assert not re.search(r"\bcall\b", body), name


def streamed(kernels):
    return {k: b for k, b in kernels.items() if re.search(r"\d+stream_\w+E", k)}


def test_streamed_products_use_the_tensor_core_and_asynchronous_copies(kernels):
    assert len(streamed(kernels)) == 9
    for name, body in streamed(kernels).items():
        assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in body, name
        assert "cp.async.cg.shared.global" in body and "cp.async.wait_group" in body, name
        assert "ld.shared" in body, name  # and not by addresses of any kind


def test_streamed_products_keep_their_sums_in_registers(kernels):
    for name, body in streamed(kernels).items():
        assert ".local" not in body, name


def test_split_attention_keeps_its_sums_in_registers_and_reads_four_weights_at_a_time(kernels):
    found = {k: b for k, b in kernels.items() if re.search(r"\d+(attend_\w+|merge_attention)E", k)}
    assert len(found) == 5
    for name, body in found.items():
        assert ".local" not in body, name
        assert "merge" in name or "ld.shared.v4" in body, name


def test_no_sum_is_made_by_atomics(kernels):
    for name, body in kernels.items():
        if "draft_chain" not in name:
            assert not re.search(r"\b(atom|red)\.", body), name


def test_blocks_of_a_chain_meet_by_one_counter_and_read_what_others_wrote(kernels):
    (body,) = [b for k, b in kernels.items() if re.search(r"\d+draft_chainE", k)]
    atomics = set(re.findall(r"\b(?:atom|red)\.[\w.]*", body))
    assert atomics == {"atom.add.acq_rel.gpu.u32"}  # whole numbers: blocks that have arrived
    assert "ld.acquire.gpu.u32" in body
    # Read as what does not change while the kernel runs are tables of the program's own, and nothing else.
    for address in set(re.findall(r"ld\.global\.nc\S*\s+[^,]+, \[(%rd\d+)", body)):
        for how, what in re.findall(rf"\t(\S+)\s+{address}, ([^;]+);", body):
            assert how == "mov.u64" and what.startswith("_Z"), (how, what)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in body and "cp.async.cg.shared.global" in body
