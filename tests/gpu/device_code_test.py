"""Checks the PTX that nvcc makes of the kernels, for properties that no run on the host would show."""
import os
import re
import subprocess

import pytest

ROOT = os.environ["PACELINE_SOURCE_DIR"]
NVCC = os.environ.get("PACELINE_NVCC", "")
FLAGS = os.environ.get("PACELINE_NVCC_FLAGS", "").split(",")

pytestmark = pytest.mark.skipif(not NVCC, reason="there is no nvcc")


KERNELS = os.path.join(ROOT, "gpu/kernels/device_kernels.cu")


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
    return entries(ptx_of(KERNELS, tmp_path_factory.mktemp("ptx")))


def test_every_kernel_is_there(kernels):
    text = open(os.path.join(ROOT, "gpu/kernels/kernel_id.hpp")).read()
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
    return {k: b for k, b in kernels.items() if re.search(r"\d+stream(16|32|64)?_\w+E", k)}


def of_experts(kernels):
    return {k: b for k, b in kernels.items() if re.search(r"\d+expert_(q\d|f8|f16|bf16)\w*E", k)}


def test_streamed_products_use_the_tensor_core_and_asynchronous_copies(kernels):
    assert (len(streamed(kernels)), len(of_experts(kernels))) == (40, 10)
    for name, body in (streamed(kernels) | of_experts(kernels)).items():
        assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in body, name
        assert "cp.async.cg.shared.global" in body and "cp.async.wait_group" in body, name
        assert "ld.shared" in body, name  # and not by addresses of any kind


def test_streamed_products_keep_their_sums_in_registers(kernels):
    for name, body in (streamed(kernels) | of_experts(kernels)).items():
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
    assert atomics == {"atom.add.release.gpu.u32"}  # whole numbers: blocks that have arrived
    # There is one fence after every wait, and one after the count of a block that finds that all others have arrived.
    waits = [m.start() for m in re.finditer(r"ld\.relaxed\.gpu\.u32", body)]
    fences = [m.start() for m in re.finditer(r"fence\.acq_rel\.gpu", body)]
    assert waits and len(fences) == len(waits) and all(w < f for w, f in zip(waits, fences)) and "ld.acquire" not in body
    # Read as what does not change while the kernel runs are tables of the program's own, and nothing else.
    for address in set(re.findall(r"ld\.global\.nc\S*\s+[^,]+, \[(%rd\d+)", body)):
        for how, what in re.findall(rf"\t(\S+)\s+{address}, ([^;]+);", body):
            assert how == "mov.u64" and what.startswith("_Z"), (how, what)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in body and "cp.async.cg.shared.global" in body


def name_of(mangled):
    return re.match(r"_ZN8paceline3gpu6on_gpu\d+([a-z0-9_]+)E", mangled).group(1)


def turns(kernels):
    """Kernels that wait for the one ahead themselves, and the others."""
    text = open(os.path.join(ROOT, "gpu/kernels/kernel_id.hpp")).read()
    rule = re.search(r"constexpr bool takes_turns.*?\n\}", text, re.S).group(0)
    without = set(re.findall(r"kernel_id::(\w+)", rule))
    assert "pack_weights" in without and "return false;\n  default:\n    return true;" in rule
    named = {name_of(k): b for k, b in kernels.items()}
    assert without < named.keys()
    return {n: b for n, b in named.items() if n not in without}, {n: named[n] for n in without}


def test_kernels_that_take_turns_let_the_next_begin_and_wait_and_no_others(kernels):
    taking, others = turns(kernels)
    for name, body in taking.items():
        assert "griddepcontrol.launch_dependents" in body, name
        assert "griddepcontrol.wait" in body, name
    assert not [n for n, b in others.items() if "griddepcontrol" in b]


def before_the_wait(body):
    """Instructions on the ways from a kernel's beginning to the wait; among them "ret;" if a way leads past it."""
    lines = [l.strip() for l in body.split("\n")]
    lines = [l for l in lines if l and not l.startswith(("//", ".loc", ".reg", "{", "}"))]
    labels = {l[:-1]: i for i, l in enumerate(lines) if l.endswith(":")}
    found, seen, ways = [], set(), [0]
    while ways:
        at = ways.pop()
        while at not in seen:
            seen.add(at)
            line = lines[at]
            if line == "griddepcontrol.wait;":
                break
            assert "brx" not in line, "a jump by a table is not followed"
            found.append(line)
            jump = re.search(r"\bbra(?:\.uni)?\s+(\S+);", line)
            if jump:
                ways.append(labels[jump.group(1)])
            if line.startswith(("ret;", "exit;", "trap;")) or (jump and not line.startswith("@")):
                break
            at += 1
    return found


def accesses(lines):
    return set(re.findall(r"\b(?:ld|st|atom|red)\.(?!param)\S*|\bcp\.async\S*", "\n".join(lines)))


def test_every_way_through_a_kernel_that_takes_turns_leads_to_the_wait(kernels):
    taking, others = turns(kernels)
    assert len(taking) > 30
    for name, body in taking.items():
        if name != "probe_turns":  # the test of what happens otherwise
            assert "ret;" not in before_the_wait(body), name
    assert "ret;" in before_the_wait(others["pack_weights"])


def test_nothing_is_read_or_written_before_the_wait(kernels):
    taking, _ = turns(kernels)
    for name, body in taking.items():
        if not re.match(r"stream\d*_", name) and name != "probe_turns":
            assert not accesses(before_the_wait(body)), name


def test_streamed_products_ask_for_weights_before_they_wait_and_for_nothing_else(kernels):
    for name, body in streamed(kernels).items():
        found = accesses(before_the_wait(body))
        of_weights = "cp.async.cg.shared.global.L2::cache_hint"
        assert of_weights in found, name
        of_rows = {a for a in found if "bf16" in name and a.startswith("ld.global")}  # their multipliers
        assert found - of_rows <= {of_weights, "cp.async.commit_group;"}, name


def own_lines(arch):
    """Lines of our own files, as they are compiled for a GPU of this architecture."""
    done = subprocess.run([NVCC, *FLAGS, f"-arch=sm_{arch}", "-E", KERNELS], check=True, capture_output=True, text=True)
    file, found = "", []
    for line in done.stdout.splitlines():
        mark = re.match(r'# \d+ "(.*?)"', line)
        if mark:
            file = os.path.realpath(mark.group(1))
        elif file.startswith(os.path.realpath(ROOT) + os.sep):
            found.append(line)
    return found


def test_older_gpus_have_none_of_it():
    """By the source: to compile the kernels once more takes a minute."""
    counts = {arch: sum("griddepcontrol" in line for line in own_lines(arch)) for arch in (80, 89, 90)}
    assert counts == {80: 0, 89: 0, 90: 2}
