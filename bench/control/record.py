#!/usr/bin/env python3
"""Records what a model says to the prompts of workloads, for `control_replay`: token ids of prompts and replies, decoded plainly.

    bench/control/record.py --model qwen.gguf --workload mt_bench.jsonl --workload code_edit.jsonl --out texts.jsonl
"""
import argparse
import concurrent.futures
import json
import pathlib
import sys
import tempfile
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import bench_daemon


def ask(port, messages, temperature, tokens):
    body = {"messages": messages, "max_tokens": tokens, "temperature": temperature, "seed": 1, "return_token_ids": True,
            "speculation": {"drafter": "none"}}
    request = urllib.request.Request(f"http://{bench_daemon.HOST}:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as reply:
        return json.load(reply)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", action="append", required=True, help="JSON lines with `messages`; may be given several times")
    parser.add_argument("--prompts", type=int, default=20, help="of each workload")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many first prompts of each workload")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    jobs = []
    for path in map(pathlib.Path, arguments.workload):
        for line in path.read_text().splitlines()[arguments.skip:arguments.skip + arguments.prompts]:
            jobs += [(path.stem, json.loads(line)["messages"], temperature) for temperature in (0, 1)]
    config = {"version": 1, "server": {"port": 0}, "models": [{"path": str(pathlib.Path(arguments.model).resolve())}]}
    with tempfile.TemporaryDirectory() as folder, open(arguments.out, "w") as out:
        process, port = bench_daemon.start(arguments.bin, config, folder)
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                replies = pool.map(lambda job: ask(port, job[1], job[2], arguments.tokens), jobs)
                for (workload, _, temperature), reply in zip(jobs, replies):
                    choice = reply["choices"][0]
                    prompt = choice.get("prompt_token_ids") or reply["prompt_token_ids"]
                    print(json.dumps({"workload": workload, "temperature": temperature, "prompt": prompt, "output": choice["token_ids"]}), file=out)
        finally:
            bench_daemon.stop(process)


if __name__ == "__main__":
    main()
