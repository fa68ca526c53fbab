#!/usr/bin/env python3
"""Times replies that must match a schema beside replies that need not, through a real daemon, streamed over HTTP.

    bench/e2e/structured_output.py --model qwen.gguf --out structured.json

Each pair sends the same prompt with and without a schema, one behind the other in turning order, each under a salt of its own, with
`auto` and the default configuration. A reply's rate is its tokens over the time from its first to its last event, and over the whole
request. Two schemas: one with free texts, and one that leaves little choice (long names, constants, lists of few values). The last lines
say what a mask costs: rounds of plain decoding with and without a schema. Ends with 1 if a line misses its bound.
"""
import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import bench_daemon

HERE = Path(__file__).parent
FREE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 80},
        "summary": {"type": "string", "maxLength": 120},
        "keywords": {"type": "array", "items": {"type": "string", "maxLength": 40}, "minItems": 3, "maxItems": 6},
    },
    "required": ["title", "summary", "keywords"],
    "additionalProperties": False,
}
RATING = {"enum": ["completely_satisfactory", "partially_satisfactory", "not_satisfactory"]}
NAMES = ("readability_of_the_text", "correctness_of_the_contents", "completeness_of_the_contents", "usefulness_for_the_reader",
         "originality_of_the_thoughts", "conciseness_of_the_language")
FORCED = {
    "type": "object",
    "properties": {"document_classification_schema_version": {"const": "2026-11-25-first-edition"}} | {name: RATING for name in NAMES}
    | {"requires_further_review_by_an_editor": {"type": "boolean"}},
    "required": ["document_classification_schema_version", *NAMES, "requires_further_review_by_an_editor"],
    "additionalProperties": False,
}
PROMPTS = [
    f"Read this and answer in JSON: {topic} are explained to pupils in a short article with three examples and a question at the end."
    for topic in ("Volcanoes", "Glaciers", "Sailing boats", "Steam engines", "Bees", "Bridges", "Clouds", "Rivers", "Magnets", "Lenses", "Tides", "Comets")
]


def stream(url, body):
    """Tokens, seconds from the first to the last event with text, seconds of the whole request, and the text."""
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin, first, last, text, usage = time.perf_counter(), None, None, "", None
    with urllib.request.urlopen(request, timeout=600) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                last = time.perf_counter()
                first = first or last
                text += event["choices"][0]["delta"]["content"]
            usage = event.get("usage") or usage
    return {"tokens": usage["completion_tokens"], "decode": last - first, "whole": last - begin, "text": text}


def compare(url, schema, drafters, pairs, tokens, salts):
    """Ratios of the rate with the schema (and the first drafter) to the rate without (and the second)."""
    ratios, rates = [], {"with": [], "without": []}
    arms = {"with": {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}, "speculation": {"drafter": drafters[0]}},
            "without": {"speculation": {"drafter": drafters[1]}, "max_tokens": 100}}
    for n in range(pairs):
        found = {}
        for arm in ("with", "without") if n % 2 == 0 else ("without", "with"):
            body = {"messages": [{"role": "user", "content": PROMPTS[n % len(PROMPTS)]}], "max_tokens": tokens, "temperature": 0, "stream": True,
                    "stream_options": {"include_usage": True}, "cache_salt": f"structured {next(salts)}"} | arms[arm]
            got = stream(url, body)
            if arm == "with" and got["tokens"] < tokens:
                json.loads(got["text"])
            found[arm] = got["tokens"] / got["whole"]
            rates[arm].append(found[arm])
        ratios.append(found["with"] / found["without"])
    return {"ratio": statistics.median(ratios), "quartiles": statistics.quantiles(ratios, n=4), "pairs": pairs,
            "with": statistics.median(rates["with"]), "without": statistics.median(rates["without"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=HERE.parents[1] / "build/release/bin/paceline")
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    config = {"version": 1, "server": {"port": 0}, "models": [{"name": "model", "path": str(Path(arguments.model).resolve())}]}
    lines, salts = [], itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        process, port = bench_daemon.start(arguments.bin, config, folder)
        url = f"http://{bench_daemon.HOST}:{port}"
        try:
            for schema in (FREE, FORCED):  # compiled before it is timed
                compare(url, schema, ("auto", "auto"), 2, 20, salts)
            for name, schema, drafters, bound in (("free texts", FREE, ("auto", "auto"), 0.95), ("most tokens forced", FORCED, ("auto", "auto"), 1.3),
                                                  ("free texts, plain decoding", FREE, ("none", "none"), 0.97)):
                line = {"schema": name, "drafters": drafters, "bound": bound} | compare(url, schema, drafters, arguments.pairs, arguments.tokens, salts)
                line["verdict"] = "pass" if line["ratio"] >= bound else "short"
                lines.append(line)
                low, _, high = line["quartiles"]
                print(f"| {name} | {line['without']:.1f} | {line['with']:.1f} | {line['ratio']:.3f} ({low:.3f} to {high:.3f}) | {bound} | {line['verdict']} |", flush=True)
        finally:
            bench_daemon.stop(process)
    if arguments.out:
        arguments.out.write_text(json.dumps(lines, indent=1) + "\n")
    return int(any(line["verdict"] == "short" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
