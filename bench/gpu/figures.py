#!/usr/bin/env python3
"""Measures the required figures of a GPU with one command: makes the models, runs the checks and benches, and prints one row for each
figure with its bound. Needs a build, python3 with numpy, and no network.

    bench/gpu/figures.py --out /tmp/figures                       # everything; allow an hour
    bench/gpu/figures.py --out /tmp/figures --stages 8b_bf16,1b   # some of it
    bench/gpu/figures.py --out /tmp/figures --stages report       # the table of all stages that have left their rows there
    bench/gpu/figures.py --list

Stages are independent. A stage writes OUT/<stage>.json: its rows, and the benches' output with the commands that repeat them.
A figure that cannot be measured has the reason in its row, and is not a failure; the exit code is 1 if a figure misses its bound or a
check failed.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKE_MODEL = ROOT / "tools/make_synthetic_model.py"
TRANSFORMERS = Path(__file__).with_name("transformers_runner.py")
PROMPTS = ["The ship left the harbour at dawn.", "Eleven green bottles stood on the wall.", "def area(width, height):",
           "What is the capital of the smallest country?"]
DRAFT_LENGTH = 4
# The parity tests to run under a tool that makes them fifty times slower: a few for each kind of kernel.
SANITIZED = ("intrinsics.*:read_memory.*:gpu/any_matmul.serves_several*:gated_matmul.may_write*:gpu_split_attention.a_rows_bits*:"
             "gpu_row_kernels.*:gpu_choose.penalties*:gpu_kv_commit.moves_accepted*:fast_matmul.adds_bias*:"
             "small_models/draft_chains.*llama_Q8_0:models/sixteen_bit_forward.*comes_again/qwen3_BF16")


class CannotMeasure(Exception):
    """Why a figure cannot be measured here."""


def row(what, measured, unit, bound=None, at_most=None, at_least=None, note=""):
    """A figure and its bound; without a bound it is only reported."""
    verdict = "told"
    if at_most is not None or at_least is not None:
        good = (at_most is None or measured <= at_most) and (at_least is None or measured >= at_least)
        verdict = "pass" if good else "short"
        bound = f"<= {at_most:g}" if at_least is None else f">= {at_least:g}" if at_most is None else f"{at_least:g} to {at_most:g}"
    return {"what": what, "measured": measured, "unit": unit, "bound": bound or "", "verdict": verdict, "note": note}


def missing(what, why):
    return {"what": what, "measured": None, "unit": "", "bound": "", "verdict": "not measured", "note": why}


class Machine:
    """Paths, and what has been run for the current stage."""

    def __init__(self, args):
        self.args = args
        self.ran = []
        args.work.mkdir(parents=True, exist_ok=True)

    def run(self, command, env=None):
        """A program's output. Raises CannotMeasure where it fails or does not end in time."""
        command = [str(part) for part in command]
        began = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.args.limit, env={**os.environ, **(env or {})})
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise CannotMeasure(str(failure)) from failure
        entry = {"command": " ".join(command), "exit": done.returncode, "seconds": round(time.monotonic() - began, 1)}
        self.ran.append(entry)
        if done.returncode != 0:
            entry["said"] = (done.stdout + done.stderr)[-4000:]
        # Conditions that make a device slower without a failure are reported there.
        if remarks := sorted({line for line in done.stderr.splitlines() if line.startswith("paceline: ")}):
            entry["remarks"] = remarks
        return done

    def bench(self, what, *flags):
        done = self.run([self.args.paceline, "bench", what, *flags, "--json"])
        if done.returncode != 0:
            raise CannotMeasure((done.stderr.strip().splitlines() or ["it failed"])[-1])
        figures = json.loads(done.stdout.strip().splitlines()[-1])
        self.ran[-1]["figures"] = figures
        return figures

    def model(self, shape, kind, layers=None, loud=None):
        """The path of a model with random weights, which is made if it is missing."""
        shape = self.args.shape or shape
        if shape == "tiny" and loud is not None:
            loud, layers = 1, layers and 1
        flags = ["--shape", shape, "--type", kind]
        flags += ["--layers", layers] if layers else []
        flags += ["--loud", loud] if loud else []
        path = self.args.work / ("-".join(str(f).lstrip("-") for f in flags) + ".gguf")
        if not path.exists():
            done = self.run([sys.executable, MAKE_MODEL, path, *flags])
            if done.returncode != 0:
                raise CannotMeasure(f"no model: {done.stderr[-200:]}")
        return path

    def prompts(self, count=len(PROMPTS)):
        path = self.args.work / f"prompts{count}.jsonl"
        texts = [f"{n} {text}" if n > 0 else text for n in range(-(-count // len(PROMPTS))) for text in PROMPTS]
        path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts[:count]))
        return path

    def device(self, name=None):
        return ["--device", name or self.args.device]

    def repeats(self):
        return ["--repeats", self.args.repeats]


# ---- figures


def idle_row(what, figures):
    if "device_idle_share" not in figures:
        return missing(what, "the device has no clock of its own")
    share = figures["device_idle_share"]
    return row(what, round(100 * share["to"], 2), "% of a round", at_most=3,
               note=f"{100 * share['from']:.2f} % if launching overlaps with nothing that waits")


def decode_rows(machine, label, path, least_percent):
    figures = machine.bench("decode", "--model", path, *machine.device(), *machine.repeats(), "--tokens", machine.args.tokens,
                            "--roof")
    said = f"{figures['tokens_per_second']:.1f} tokens/s; the device reads {figures['read_gb_per_second']:.0f} GB/s"
    return [row(f"decode, {label}", round(100 * figures["share_of_roof"], 1), "% of the read rate", at_least=least_percent, note=said),
            idle_row(f"host's share of a round, {label}", figures)]


def verify_rows(machine, label, path):
    figures = machine.bench("cost", "--model", path, *machine.device(), *machine.repeats(), "--rows", "1,2,4,8,16,32,64", "--context",
                            machine.args.context)
    cost = {p["rows"]: p for p in figures["passes"]}
    note = ", ".join(f"V({t}) {p['cost']:.2f}" for t, p in cost.items() if t > 1)
    one = 1e3 * cost[1]["seconds"]["median"]
    return [row(f"V(8)/V(1), {label}", round(cost[8]["cost"], 3), "", at_most=1.15, note=f"V(1) {one:.3f} ms; {note}"),
            row(f"V(32)/V(1), {label}", round(cost[32]["cost"], 3), "", at_most=1.5)]


def model_stage(shape, kind, least_percent, verifies):
    def stage(machine):
        label = f"{shape} {kind}".upper()
        path = machine.model(shape, kind)
        yield from decode_rows(machine, label, path, least_percent)
        if verifies:
            yield from verify_rows(machine, label, path)
    return stage


def draft_stage(machine):
    for kind in ("bf16", "q4_k"):
        label = f"draft, 0.5B {kind.upper()}"
        figures = machine.bench("cost", "--model", machine.model("0.5b", kind), *machine.device(), *machine.repeats(), "--rows", 1,
                                "--context", machine.args.context, "--draft", 2 * DRAFT_LENGTH)
        draft = figures["draft"]
        note = f"{draft['tokens']} tokens {'in one launch' if draft['of_one_piece'] else 'pass by pass'}, launching counted"
        if draft["of_one_piece"] or not machine.args.device.startswith("cuda"):
            yield row(label, round(draft["ms_per_token"], 4), "ms a token", at_most=0.45, note=note)
        else:
            yield missing(label, f"the device did not make it in one launch; pass by pass {draft['ms_per_token']:.3f} ms a token")


def overlap_row(machine, mode, batch, target, drafter):
    """The gain of `mode` with one model on each device, and the gain model's prediction from the same rounds' times."""
    label = f"overlap {mode}, {f'{batch} requests, ' if batch > 1 else ''}target on {target}, drafter on {drafter}"
    # In a batch only rounds of all requests count. Texts are long enough that the last prompt is read before they end.
    prompts, tokens = (len(PROMPTS), machine.args.tokens) if batch == 1 else (2 * batch, 2 * machine.args.tokens)
    try:
        figures = machine.bench("spec", "--model", machine.model("1b", "q4_k", loud=2), "--draft-model",
                                machine.model("1b", "q4_k", layers=2, loud=2), *machine.device(target), "--draft-device", drafter,
                                "--drafters", "model", "--lengths", DRAFT_LENGTH, "--overlap", f"off,{mode}", "--concurrency", batch,
                                "--workload", machine.prompts(prompts), "--max-tokens", tokens)
    except CannotMeasure as why:
        return missing(label, str(why))
    arms = {a.get("overlap"): a for a in figures["workloads"][0]["arms"]}
    off, beside = arms["off"], arms[mode]
    if "predicted_overlap_gain" not in beside or "overlap_gain" not in beside:
        return missing(label, "no rounds in which all requests had a draft")
    gain = beside["tokens_per_second"]["median"] / off["tokens_per_second"]["median"]
    if batch > 1:  # tokens a second include prompts, and what the last request decodes alone
        gain = beside["overlap_gain"]
    expected = beside["predicted_overlap_gain"]
    ready = f", ready {beside['ready_share']:.2f}" if mode == "ahead" else ""
    return row(label, round(gain / expected, 3), "of the model's gain", at_least=0.9, at_most=1.1,
               note=f"gain {gain:.3f}, model {expected:.3f}; accepted {off['acceptance_rate']:.2f}{ready}; "
                    f"{beside['different_texts']} other texts")


def overlap_stage(machine):
    here, there = machine.args.device, machine.args.other_device
    for target, drafter in ((there, here), (here, there)):
        for mode, batch in (("ahead", 1), ("groups", machine.args.batch)):
            yield overlap_row(machine, mode, batch, target, drafter)


def exact_stage(machine):
    """Checks that tokens do not depend on draft, batch and overlap, or on a restart."""
    path = machine.args.model or machine.model("tiny", "bf16")
    common = ["--model", path, *machine.device(), "--workload", machine.prompts(), "--max-tokens", machine.args.tokens]
    figures = machine.bench("spec", *common, "--draft-model", path, "--drafters", "ngram,model", "--lengths", "1,3,7", "--concurrency",
                            "1,4", "--overlap", "off,ahead,outcomes")
    arms = [a for w in figures["workloads"] for a in w["arms"]]
    different = sum(a["different_texts"] for a in arms)
    yield row("texts that differ with drafts, batches, overlap", different, f"of {len(arms) * len(PROMPTS)}", at_most=0)
    texts = []
    for _ in range(2):
        done = machine.run([machine.args.paceline, "run", "--model", path, *machine.device(), "--prompt", PROMPTS[0], "--max-tokens",
                            machine.args.tokens, "--json"])
        if done.returncode != 0:
            raise CannotMeasure(done.stderr[-200:])
        texts.append(json.loads(done.stdout)["tokens"])
    yield row("texts that differ after a restart", int(texts[0] != texts[1]), "of 1", at_most=0)


def gtest(machine, what, name_filter, env=None, tool=()):
    """A row for the parity tests selected by `name_filter`, and their output."""
    program = machine.args.tests
    if not program.exists():
        return missing(what, f"{program} is not built"), ""
    done = machine.run([*tool, program, f"--gtest_filter={name_filter}", "--gtest_brief=0"], env)
    counted = {kind: int(n) for kind, n in re.findall(r"\[\s+(PASSED|SKIPPED|FAILED)\s+\] (\d+) tests?", done.stdout)}
    failed = max(counted.get("FAILED", 0), int(done.returncode != 0))
    no_gpu = "this machine has no GPU"
    if failed == 0 and (no_gpu in done.stdout or counted.get("PASSED", 0) == 0):  # a few tests need no GPU and passed
        return missing(what, no_gpu if no_gpu in done.stdout else "no test ran"), done.stdout
    names = " ".join(sorted(set(re.findall(r"\[  FAILED  \] (\S+\.\S+?)[, ]", done.stdout))))[:300]
    return row(what, failed, f"failed, {counted.get('PASSED', 0)} passed, {counted.get('SKIPPED', 0)} skipped", at_most=0,
               note=names), done.stdout


def parity_stage(machine):
    yield gtest(machine, "parity tests", machine.args.test_filter)[0]


def sanitizer_stage(machine):
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    for tool in ("memcheck", "racecheck", "synccheck"):
        what = f"compute-sanitizer {tool}"
        if not sanitizer:
            yield missing(what, "there is no compute-sanitizer")
        else:
            yield gtest(machine, what, SANITIZED, tool=[sanitizer, "--tool", tool, "--error-exitcode", "9"])[0]


def accuracy_stage(machine):
    what = "SmolLM2 beside float32"
    if not machine.args.model:
        yield missing(what, "no --model smollm2.gguf was given")
        return
    if machine.args.model.name != "smollm2.gguf":
        yield missing(what, "the test wants it to be called smollm2.gguf")
        return
    outcome, said = gtest(machine, what, "accuracy_on_gpu.*", {"PACELINE_MODEL_DIR": str(machine.args.model.resolve().parent)})
    found = re.search(r"same best token on (\d+) of (\d+) clear positions, mean \|difference\| ([\d.]+)", said)
    if not found:
        yield outcome
        return
    same, clear, difference = int(found[1]), int(found[2]), float(found[3])
    yield row("SmolLM2: same best token as float32", round(100 * same / clear, 2), "% of clear positions", at_least=99.5, note=f"{clear} positions")
    yield row("SmolLM2: mean |difference| of log-probability", difference, "", at_most=0.01)


def fast_stage(machine):
    path = machine.model("8b", "bf16")
    rates = {}
    for mode in ("", "/fast"):
        if mode and not machine.args.device.startswith("cuda"):
            yield missing("prefill of 2048, fast mode", "fast mode is a GPU's")
            return
        figures = machine.bench("prefill", "--model", path, *machine.device(machine.args.device + mode), *machine.repeats(), "--prompt-tokens",
                                machine.args.prompt_tokens)
        rates[mode] = figures["tokens_per_second"]
        yield row(f"prefill of {machine.args.prompt_tokens}, 8B BF16, {'fast' if mode else 'strict'} mode", round(rates[mode], 1), "tokens/s",
                  note=f"{rates[mode] / rates['']:.2f} of strict mode")


def peer_stage(machine):
    what = "with a drafter, beside transformers' assisted generation"
    target, drafter = (machine.model("8b", "bf16", loud=4), machine.model("8b", "bf16", layers=4, loud=4))
    figures = machine.bench("spec", "--model", target, "--draft-model", drafter, *machine.device(), "--drafters", "model", "--lengths",
                            DRAFT_LENGTH, "--overlap", "off", "--workload", machine.prompts(), "--max-tokens", machine.args.tokens)
    plain, ours = figures["workloads"][0]["arms"]
    yield row("8B BF16 with its first 4 layers, beside plain decoding", round(ours["speed_up"]["median"], 3), "times",
              note=f"{ours['tokens_per_second']['median']:.1f} beside {plain['tokens_per_second']['median']:.1f} tokens/s, accepted "
                   f"{ours['acceptance_rate']:.2f}, length {DRAFT_LENGTH}")
    yield idle_row("host's share of a round with a draft, 8B BF16", ours)
    place = "cuda" if machine.args.device.startswith("cuda") else "cpu"
    done = machine.run([sys.executable, TRANSFORMERS, "--model", target, "--assistant", drafter, "--device", place, "--tokens",
                        machine.args.tokens, "--draft-length", DRAFT_LENGTH, "--prompts", machine.prompts()])
    if done.returncode != 0:
        yield missing(what, (done.stderr.strip().splitlines() or ["it failed"])[-1])
        return
    theirs = json.loads(done.stdout.strip().splitlines()[-1])
    machine.ran[-1]["figures"] = theirs
    for name, mine, other in (("plain decoding", plain, theirs["plain"]), ("with the drafter", ours, theirs["assisted"])):
        rate = mine["tokens_per_second"]["median"]
        yield row(f"{name}, beside transformers", round(rate / other, 2), "times",
                  note=f"{rate:.1f} and {other:.1f} tokens/s of transformers {theirs['transformers']}, torch {theirs['torch']}")


STAGES = {
    "parity": (parity_stage, "the parity tests"),
    "sanitizer": (sanitizer_stage, "a few of them under compute-sanitizer"),
    "accuracy": (accuracy_stage, "SmolLM2 beside float32 (--model)"),
    "exact": (exact_stage, "the same texts with drafts, batches, overlap, after a restart (--model, or noise)"),
    "8b_bf16": (model_stage("8b", "bf16", 70, True), "decoding, V(T) and the host's share of a Llama 3 8B"),
    "8b_q4_k": (model_stage("8b", "q4_k", 50, True), "the same in Q4_K"),
    "1b": (model_stage("1b", "bf16", 45, False), "decoding of a Llama 3.2 1B"),
    "draft": (draft_stage, "the draft of a Qwen2.5 0.5B in one launch"),
    "overlap": (overlap_stage, "gain of overlap with two devices, beside its model"),
    "fast": (fast_stage, "prompts in fast mode beside strict mode"),
    "peer": (peer_stage, "drafts of the model's own layers, and transformers' on the same weights"),
}


def remark_rows(machine):
    """Warnings of successful programs about a device that is slower than it could be."""
    for remark in sorted({remark for entry in machine.ran if entry["exit"] == 0 for remark in entry.get("remarks", ())}):
        yield row("a remark", None, "", note=remark.removeprefix("paceline: "))


def run_stage(name, args):
    """Runs a stage. Its file always has the results so far, in case it is interrupted."""
    machine = Machine(args)
    rows, began = [], time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)

    def keep(one):
        rows.append({"stage": name, **one})
        show([rows[-1]])
        (args.out / f"{name}.json").write_text(json.dumps(
            {"stage": name, "device": args.device, "seconds": round(time.monotonic() - began, 1), "rows": rows, "ran": machine.ran}, indent=1))

    try:
        for one in STAGES[name][0](machine):
            keep(one)
    except CannotMeasure as why:
        keep(missing(name, str(why)))
    for one in remark_rows(machine):
        keep(one)


def show(rows):
    for r in rows:
        value = "" if r["measured"] is None else f"{r['measured']:g} {r['unit']}".strip()
        print(f"{r['verdict']:<13} {r['what']:<58} {value:<32} {r['bound']:<10} {r['note']}".rstrip(), flush=True)


def collected(out):
    return [r for name in STAGES if (out / f"{name}.json").exists() for r in json.loads((out / f"{name}.json").read_text())["rows"]]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where rows and reports go")
    parser.add_argument("--stages", default=",".join(STAGES), help="some of the list; report: only the table")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("/tmp/paceline-models"), help="where models are made, and kept: 45 GB for all")
    parser.add_argument("--paceline", type=Path, default=ROOT / "build/release/bin/paceline")
    parser.add_argument("--tests", type=Path, default=ROOT / "build/release/bin/gpu_hardware_test")
    parser.add_argument("--test-filter", default="-accuracy_on_gpu.*", help="which parity tests; those of accuracy are a stage of their own")
    parser.add_argument("--model", type=Path, help="smollm2.gguf")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--other-device", default="cpu", help="of the overlap's other side")
    parser.add_argument("--shape", help="of every model, in place of the one asked for: tiny, to try the command")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8, help="requests that overlap in groups")
    parser.add_argument("--context", type=int, default=256, help="positions before a pass whose cost is measured")
    parser.add_argument("--prompt-tokens", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--limit", type=int, default=540, help="seconds of one program")
    return parser.parse_args()


def main():
    args = arguments()
    if args.list:
        for name, (_, what) in STAGES.items():
            print(f"{name:<10} {what}")
        return 0
    if args.out is None:
        sys.exit("--out is missing")
    names = [s for s in args.stages.split(",") if s != "report"]
    if unknown := [s for s in names if s not in STAGES]:
        sys.exit(f"no stage {', '.join(unknown)}: {', '.join(STAGES)}")
    for name in names:
        print(f"-- {name}", flush=True)
        run_stage(name, args)
    rows = collected(args.out)
    (args.out / "figures.json").write_text(json.dumps(rows, indent=1))
    show(rows)
    return int(any(r["verdict"] == "short" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
