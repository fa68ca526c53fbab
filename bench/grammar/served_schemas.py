"""Replies of a model to schemas of our own: every reply that ends by itself is valid, and the same with and without speculation.

    bench/grammar/served_schemas.py MODEL.gguf [--count 200] [--out table.md]

The schemas are those of schemas.py. Each is sent to a daemon as the `response_format` of a chat, greedy and at temperature 1, plain (`none`), with `auto` and with `forced`, each
under a salt of its own. Ends with 1 if a reply is invalid or two of them differ.
"""
import argparse
import concurrent.futures
import json
import random
import sys
import tempfile
import urllib.request
from collections import Counter
from pathlib import Path

import jsonschema

from schemas import made_schema

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import bench_daemon  # noqa: E402

DRAFTERS = ("none", "auto", "forced")


def ask(url, schema, number, temperature, drafter, tokens):
    body = {
        "messages": [{"role": "user", "content": "Make up a short example in JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}},
        "max_tokens": tokens, "temperature": temperature, "seed": number, "cache_salt": f"{number} {temperature} {drafter}", "speculation": {"drafter": drafter},
    }
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        answer = json.load(reply)
    figures = answer["metrics"].get("speculative_decoding") or {}
    return answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"], figures.get("num_accepted_draft_tokens", 0)


def judge(url, schema, number, tokens):
    """What is to be counted, and what is wrong."""
    counts, wrong = Counter(), []
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for temperature in (0, 1):
        replies = [ask(url, schema, number, temperature, drafter, tokens) for drafter in DRAFTERS]
        counts["accepted draft tokens"] += sum(accepted for _, _, accepted in replies)
        if len({(text, finish) for text, finish, _ in replies}) != 1:
            wrong.append(("differ", schema, replies))
        text, finish, _ = replies[0]
        if finish != "stop":
            counts["cut at max_tokens"] += 1
            continue
        counts["ended by itself"] += 1
        try:
            valid = validator.is_valid(json.loads(text))
        except ValueError:
            valid = False
        if not valid:
            wrong.append(("invalid", schema, text))
    return counts, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--bin", default=HERE.parents[1] / "build/release/bin/paceline")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = random.Random(1)
    schemas = [made_schema(rng) for _ in range(options.count)]
    config = {"version": 1, "server": {"port": 0}, "models": [{"name": "model", "path": str(Path(options.model).resolve()), "context_length": 2048}]}
    total, wrong = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        process, port = bench_daemon.start(options.bin, config, folder)
        try:
            url = f"http://{bench_daemon.HOST}:{port}"
            with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
                for counts, faults in pool.map(lambda item: judge(url, item[1], item[0], options.tokens), enumerate(schemas)):
                    total += counts
                    wrong += faults
        finally:
            bench_daemon.stop(process)
    for fault in wrong:
        print(*map(str, fault))
    text = (f"{options.count} schemas, two temperatures, drafters {', '.join(DRAFTERS)}: {total['ended by itself']} replies ended by themselves, "
            f"{total['cut at max_tokens']} were cut at {options.tokens} tokens, {sum(kind == 'invalid' for kind, *_ in wrong)} invalid, "
            f"{sum(kind == 'differ' for kind, *_ in wrong)} different with a drafter; {total['accepted draft tokens']} draft tokens were accepted.\n")
    print(text)
    if options.out:
        options.out.write_text(text)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
