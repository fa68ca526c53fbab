"""`paceline bench`: every bench runs, checks what it times, and says where its figures come from. No figure is judged."""
import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest
import torch
from safetensors.torch import save_file

PACELINE = os.environ["PACELINE_BIN"]
WITH_EMULATED_GPU = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin/paceline_emulated"
TINY_MODEL_TOOL = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin/tiny_model_tool"


def bench(*arguments, program=PACELINE):
    return subprocess.run([program, "bench", *map(str, arguments)], capture_output=True, text=True, timeout=300)


def report(*arguments, program=PACELINE):
    done = bench(*arguments, "--json", program=program)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["bench"] == arguments[0]
    provenance = figures["provenance"]
    assert f"bench {arguments[0]}" in provenance["command"]
    assert provenance["commit"] and provenance["machine"]["cores"] >= 1
    return figures


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([TINY_MODEL_TOOL, "write", path], check=True)
    return path


def test_decode_reports_tokens_per_second_with_their_spread():
    figures = report("decode", "--model", "hash", "--tokens", 16, "--batch", 3, "--repeats", 3)
    assert figures["tokens_per_second"] > 0
    assert figures["spread"]["runs"] == 3
    assert figures["spread"]["min"] <= figures["tokens_per_second"] <= figures["spread"]["max"]
    assert figures["batch"] == 3


def test_a_report_has_the_command_that_a_shell_can_repeat(tiny_model):
    path = tiny_model.with_name("it's a model.gguf")
    path.symlink_to(tiny_model)
    command = report("decode", "--model", path, "--tokens", 2, "--prompt-tokens", 2, "--repeats", 1)["provenance"]["command"]
    assert shlex.split(command)[1:4] == ["bench", "decode", "--model"] and shlex.split(command)[4] == str(path)


def test_prefill_reports_tokens_per_second():
    figures = report("prefill", "--model", "hash", "--prompt-tokens", 64, "--repeats", 2)
    assert figures["tokens_per_second"] > 0 and figures["prompt_tokens"] == 64


def test_cost_compares_passes_with_each_other_and_with_the_machine(tiny_model):
    figures = report("cost", "--model", tiny_model, "--rows", "1,2,5", "--context", 8, "--repeats", 2, "--threads", 1)
    assert [p["rows"] for p in figures["passes"]] == [1, 2, 5]
    first = figures["passes"][0]
    assert first["cost"] == 1 and first["roof_cost"] == 1
    assert figures["read_gb_per_second"] > 0 and figures["gmac_per_second"] > 0
    # Work grows with the rows, the weights are read once.
    by_op = [{o["op"]: o for o in p["ops"]} for p in figures["passes"]]
    assert any(name.startswith("matmul") for name in by_op[0])
    assert set(by_op[0]) == set(by_op[2])


def medusa_head(target, folder):
    """One of two levels, for the target."""
    inspected = subprocess.run([PACELINE, "inspect", target, "--json"], capture_output=True, text=True, check=True)
    config = json.loads(inspected.stdout)["config"]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    generator = torch.Generator().manual_seed(1)
    tensors = {f"blocks.{level}.layers.0.weight": torch.randn(hidden, hidden, generator=generator) for level in range(2)}
    tensors["lm_head.weight"] = torch.randn(vocab, hidden, generator=generator)
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_cost_of_heads_stands_beside_a_plain_pass(tiny_model, tmp_path):
    head = medusa_head(tiny_model, tmp_path)
    figures = report("cost", "--model", tiny_model, "--rows", "1,2", "--context", 40, "--repeats", 3, "--threads", 1,
                     "--draft-head", head, "--acceptance-length", 2)
    one, = figures["heads"]
    assert one["kind"] == "medusa" and one["levels"] == 2 and 2 < one["nodes"] < 64
    assert one["share_of_plain_bytes"] == one["bytes_per_step"] / figures["weight_bytes_per_token"]
    medians = {name: one[name]["median"] for name in ("plain", "capturing", "verifying", "draft")}
    assert all(seconds > 0 for seconds in medians.values()) and one["draft"]["runs"] == 3
    assert one["seconds_per_step"] == medians["draft"], "all levels are one step"
    assert abs(one["step_of_share"] * one["share_of_plain_bytes"] * medians["plain"] / one["seconds_per_step"] - 1) < 1e-9
    assert abs(one["speedup"] - 2 * medians["plain"] / (medians["verifying"] + medians["draft"])) < 1e-9
    assert abs(one["capture_cost"] - (medians["capturing"] / medians["plain"] - 1)) < 1e-9
    table = bench("cost", "--model", tiny_model, "--rows", 1, "--context", 40, "--repeats", 1, "--draft-head", head).stdout
    assert "medusa" in table and "tree of" in table and "2.32" in table  # as published
    missing = bench("cost", "--model", tiny_model, "--rows", 1, "--draft-head", tmp_path / "none")
    assert missing.returncode != 0 and "none" in missing.stderr


def test_decode_stands_beside_what_the_device_reads(tiny_model):
    figures = report("decode", "--model", tiny_model, "--tokens", 8, "--repeats", 2, "--threads", 1, "--roof")
    expected = figures["tokens_per_second"] * figures["weight_bytes_per_token"] / (figures["read_gb_per_second"] * 1e9)
    assert figures["weight_bytes_per_token"] > 1000 and abs(figures["share_of_roof"] / expected - 1) < 1e-6
    assert "device_idle_share" not in figures  # a CPU has no clock of its own


def test_decode_on_a_gpu_tells_how_long_the_device_had_nothing_to_do(tiny_model):
    figures = report("decode", "--model", tiny_model, "--tokens", 8, "--repeats", 2, "--roof", "--device", "cuda:0",
                     program=WITH_EMULATED_GPU)
    assert figures["share_of_roof"] > 0 and figures["device_ms_per_step"] > 0
    idle = figures["device_idle_share"]
    assert 0 < idle["from"] <= idle["to"] <= 1
    # The emulation works while it is launched, so that nearly all of a step is launching.
    assert idle["to"] > 0.5 > idle["from"]


def test_cost_on_a_gpu_is_by_the_devices_clock_and_drafts_are_one_launch(tiny_model):
    figures = report("cost", "--model", tiny_model, "--rows", "1,2,70", "--context", 8, "--repeats", 2, "--draft", 3, "--device",
                     "cuda:0", program=WITH_EMULATED_GPU)
    assert [p["rows"] for p in figures["passes"]] == [1, 2, 70]
    assert figures["read_gb_per_second"] > 0 and figures["gmac_per_second"] == 0
    for one in figures["passes"]:
        assert 0 < one["seconds"]["median"] < one["host_seconds"]["median"]
    assert figures["draft"]["of_one_piece"] and figures["draft"]["tokens"] == 3
    assert abs(figures["draft"]["ms_per_token"] * 3 / figures["draft"]["seconds"]["median"] / 1e3 - 1) < 1e-6
    here = report("cost", "--model", tiny_model, "--rows", 1, "--context", 8, "--repeats", 1, "--draft", 3, "--threads", 1)
    assert not here["draft"]["of_one_piece"] and here["draft"]["ms_per_token"] > 0


def test_spec_drafts_on_another_device_ahead_of_the_verdict(tiny_model, tmp_path):
    workload = tmp_path / "prompts.jsonl"
    workload.write_text("".join(json.dumps({"prompt": f"{i} pears"}) + "\n" for i in range(2)))
    figures = report("spec", "--model", tiny_model, "--draft-model", tiny_model, "--device", "cpu", "--draft-device", "cuda:0",
                     "--drafters", "model", "--lengths", 2, "--overlap", "off,ahead", "--workload", workload, "--max-tokens", 8,
                     "--threads", 1, program=WITH_EMULATED_GPU)
    plain, off, ahead = figures["workloads"][0]["arms"]
    assert off["different_texts"] == ahead["different_texts"] == 0
    assert off["acceptance_rate"] > 0.5 and ahead["predicted_overlap_gain"] > 0 and "predicted_overlap_gain" not in off
    # No device of this machine is called so.
    elsewhere = bench("spec", "--model", tiny_model, "--draft-model", tiny_model, "--draft-device", "cuda:9", "--workload", workload,
                      program=WITH_EMULATED_GPU)
    assert elsewhere.returncode == 69 and "cuda:9" in elsewhere.stderr


def test_spec_sets_the_gain_of_groups_beside_its_model(tiny_model, tmp_path):
    workload = tmp_path / "prompts.jsonl"
    workload.write_text("".join(json.dumps({"prompt": f"{i} pears"}) + "\n" for i in range(17)))  # the last one is alone
    figures = report("spec", "--model", tiny_model, "--draft-model", tiny_model, "--drafters", "model", "--lengths", 2, "--overlap",
                     "off,groups", "--workload", workload, "--concurrency", "4,1", "--max-tokens", 40, "--threads", 1)
    together, alone = (w["arms"][1:] for w in figures["workloads"])
    off, groups = together
    assert off["different_texts"] == groups["different_texts"] == 0 and groups["overlap"] == "groups"
    assert groups["predicted_overlap_gain"] > 0 and "predicted_overlap_gain" not in off
    assert abs(groups["overlap_gain"] - off["round_seconds"] / groups["round_seconds"]) < 1e-9
    assert "predicted_overlap_gain" not in alone[1]  # one request makes no two groups


def test_no_setting_drafts_from_what_another_wrote(tmp_path):
    workload = tmp_path / "prompts.jsonl"
    workload.write_text("".join(json.dumps({"prompt": f"{i} apples and {i + 7} pears"}) + "\n" for i in range(4)))
    figures = report("spec", "--model", "hash", "--workload", workload, "--drafters", "suffix", "--lengths", "2,5", "--max-tokens", 32)
    arms = figures["workloads"][0]["arms"][1:]
    assert len(arms) == 2
    # The hash model repeats nothing, so a drafter that drafts well has seen another setting's reply to the same prompt.
    assert all(arm["acceptance_rate"] < 0.3 for arm in arms), arms


def test_serve_compares_drafters_that_give_the_same_text(tmp_path):
    workload = tmp_path / "workload.jsonl"
    workload.write_text("".join(json.dumps({"prompt": "one two three one two " * n}) + "\n" for n in (1, 2, 3, 4)))
    figures = report("serve", "--model", "hash", "--workload", workload, "--drafters", "none,ngram", "--concurrency", 2,
                     "--max-tokens", 24)
    plain, ngram = figures["drafters"]
    assert plain["drafter"] == "none" and plain["speed_up"]["median"] == 1
    assert ngram["different_texts"] == 0
    assert plain["tokens"] == ngram["tokens"] > 0
    assert ngram["speed_up"]["runs"] == 2  # groups of two


def test_spec_measures_every_drafter_length_and_workload_beside_its_prediction(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"prompt": f"{name} one two one two " * n}) + "\n" for n in range(1, 7)))
    figures = report("spec", "--model", "hash", "--workload", f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", "--drafters",
                     "ngram,auto", "--lengths", "2,4", "--concurrency", "1,2", "--max-tokens", 16)
    assert [(w["workload"], w["concurrency"]) for w in figures["workloads"]] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    for workload in figures["workloads"]:
        arms = {(a["drafter"], a["draft_length"]): a for a in workload["arms"]}
        assert list(arms) == [("none", None), ("ngram", 2), ("ngram", 4), ("auto", None)]
        plain = arms["none", None]
        assert plain["predicted_speed_up"] == 1 and plain["speed_up"]["median"] == 1 and plain["acceptance_rate"] == 0
        for arm in arms.values():
            assert arm["different_texts"] == 0
            assert abs(sum(arm["time_shares"].values()) - 1) < 0.01
            assert 0 <= arm["acceptance_rate"] <= arm["alpha"] <= 1
            low, high = arm["speed_up"]["interval95"]
            assert low <= arm["speed_up"]["median"] <= high
            assert all(a >= b for a, b in zip(arm["accepted_per_position"], arm["accepted_per_position"][1:]))


TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"


def conversations(folder, count):
    """A workload of conversations, and the flags with which the weightless model takes it."""
    workload, template = folder / "talks.jsonl", folder / "chat.jinja"
    workload.write_text("".join(
        json.dumps({"messages": [{"role": "user", "content": f"one two {n} one two"}]}) + "\n" for n in range(count)))
    template.write_text(TEMPLATE)
    return ["--model", "hash", "--chat-template", template, "--workload", workload, "--max-tokens", 24]


def test_every_door_gives_the_same_tokens_and_stands_beside_unstreamed_replies(tmp_path):
    figures = report("serve", *conversations(tmp_path, 4), "--drafters", "none,ngram/3", "--through", "http,websocket,engine",
                     "--unstreamed", "--concurrency", 2, "--pairs", 3)
    arms = {(d["drafter"], d["through"]): d for d in figures["drafters"]}
    assert list(arms) == [(d, t) for d in ("none", "ngram/3") for t in ("unstreamed", "http", "websocket", "engine")]
    for (_, through), arm in arms.items():
        assert arm["different_texts"] == 0 and arm["tokens"] == arms["none", "unstreamed"]["tokens"] > 0
        assert arm["tokens_per_second"]["runs"] == 3  # six of the four prompts: two are taken again
        assert ("ttft_p50" in arm) == ("decode_tokens_per_second" in arm) == ("of_unstreamed" in arm) == (through != "unstreamed")


def test_requests_go_over_http_streamed_unless_it_is_told_otherwise(tmp_path):
    figures = report("serve", *conversations(tmp_path, 1), "--drafters", "none")
    assert [d["through"] for d in figures["drafters"]] == ["http"]
    figures = report("spec", *conversations(tmp_path, 1), "--drafters", "ngram", "--lengths", 2)
    assert [a["through"] for a in figures["workloads"][0]["arms"]] == ["http"] * 2


def test_rounds_are_counted_beside_events(tmp_path):
    figures = report("serve", *conversations(tmp_path, 2), "--drafters", "none,ngram", "--through", "http,websocket", "--trace")
    for arm in figures["drafters"]:
        assert arm["rounds"] == arm["events"] > 0  # one event a committed round
        assert 0 < arm["commit_to_client_p50"] <= arm["commit_to_client_p99"]


def test_a_websocket_takes_no_plain_prompt(tmp_path):
    workload = tmp_path / "plain.jsonl"
    workload.write_text('{"prompt": "fine"}\n')
    done = bench("serve", "--model", "hash", "--workload", workload, "--through", "websocket")
    assert done.returncode != 0 and "takes conversations" in done.stderr


def test_what_the_daemon_refuses_fails_the_bench(tmp_path):
    done = bench("serve", *conversations(tmp_path, 1), "--drafters", "none", "--temperature", 3, "--json")
    assert done.returncode != 0 and "400" in done.stderr and "temperature" in done.stderr and done.stdout == ""
    done = bench("serve", *conversations(tmp_path, 1), "--drafters", "ngram/64")
    assert done.returncode != 0 and "ngram/64" in done.stderr


def test_numbers_are_printed_as_people_read_them(tmp_path):
    done = bench("decode", "--model", "hash", "--tokens", 8, "--repeats", 2, "--json")
    assert done.returncode == 0 and re.search(r'"tokens_per_second":\d+\.\d', done.stdout)
    assert not re.search(r"\dE\+?-?\d", done.stdout)


def test_serve_names_the_line_it_cannot_use(tmp_path):
    workload = tmp_path / "workload.jsonl"
    workload.write_text('{"prompt": "fine"}\n{"other": 1}\n')
    done = bench("serve", "--model", "hash", "--workload", workload)
    assert done.returncode == 69
    assert f"{workload}:2" in done.stderr and '"messages" nor "prompt"' in done.stderr


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path):
    for what in ("decode", "prefill", "cost"):
        done = bench(what, "--model", tmp_path / "none.gguf")
        assert done.returncode == 69 and "none.gguf" in done.stderr
