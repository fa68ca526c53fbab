#!/usr/bin/env python3
"""Times replies that must match a schema beside replies that need not, through a real daemon, streamed over HTTP.

    bench/e2e/structured_output.py --model qwen.gguf --out structured.json

Each pair sends the same prompt with and without a schema, one behind the other in turning order, each under a salt of its own, with
`auto` and the default configuration. A reply's rate is its tokens over the time of the whole request; the last column counts from the
first event with text on. Two schemas: one with free texts, and one that leaves little choice (long names, constants, lists of few
values). The prompt of a pair either names the form that the schema asks for, or does not, and then the two replies are very different
texts, of which one may be easier to draft than the other: the acceptance lengths are printed too. With a pattern that any text matches,
the two replies are one text, so the ratio is what the constraint costs. Ends with 1 if a line misses its bound.
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
ANY_TEXT = "(.|\\n)*"
TOPICS = ("Volcanoes", "Glaciers", "Sailing boats", "Steam engines", "Bees", "Bridges", "Clouds", "Rivers", "Magnets", "Lenses", "Tides", "Comets",
          "Windmills", "Clocks", "Forests", "Deserts")
OPEN = [form.format(topic) for form in (
    "Read this and answer in JSON: {} are explained to pupils in a short article with three examples and a question at the end.",
    "Plan a lesson about this topic, as JSON: {}. There are ten pupils, forty minutes and a blackboard.",
    "Answer in JSON. What should a visitor of a museum learn from a room about {}?",
) for topic in TOPICS]

FORM = ('Reply with one JSON object and nothing else, without Markdown: {{"title": text, "summary": text, "keywords": list of texts}}. '
        "It is about {}{}.")
ASKED = [FORM.format(topic, where) for where in ("", " in the north", " in the south") for topic in TOPICS]


def stream(url, body):
    """Tokens, seconds of the whole request and from the first text on, tokens a round, and the text."""
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin, first, text, last = time.perf_counter(), None, "", None
    with urllib.request.urlopen(request, timeout=600) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event["choices"]:
                text += event["choices"][0]["delta"].get("content") or ""
                first = first or (time.perf_counter() if text else None)
            if event.get("usage"):
                last = event
    speculative = last["metrics"].get("speculative_decoding") or {"mean_acceptance_length": 1}
    end = time.perf_counter()
    return {"tokens": last["usage"]["completion_tokens"], "whole": end - begin, "decode": end - first, "length": speculative["mean_acceptance_length"], "text": text}


def compare(url, constraint, prompts, drafter, pairs, tokens, salts):
    """Ratios of the rate with the constraint to the rate without."""
    ratios, decodes, rates, lengths, same = [], [], {"with": [], "without": []}, {"with": [], "without": []}, 0
    for n in range(pairs):
        found = {}
        for arm in ("with", "without") if n % 2 == 0 else ("without", "with"):
            body = {"messages": [{"role": "user", "content": prompts[n % len(prompts)]}], "max_tokens": tokens, "temperature": 0, "stream": True,
                    "stream_options": {"include_usage": True}, "cache_salt": f"structured {next(salts)}", "speculation": {"drafter": drafter}}
            found[arm] = stream(url, body | (constraint if arm == "with" else {}))
            rates[arm].append(found[arm]["tokens"] / found[arm]["whole"])
            lengths[arm].append(found[arm]["length"])
        if "response_format" in constraint and found["with"]["tokens"] < tokens:
            json.loads(found["with"]["text"])
        same += found["with"]["text"] == found["without"]["text"]
        ratios.append(rates["with"][-1] / rates["without"][-1])
        decodes.append(found["with"]["tokens"] / found["with"]["decode"] / found["without"]["tokens"] * found["without"]["decode"])
    return {"ratio": statistics.median(ratios), "quartiles": statistics.quantiles(ratios, n=4), "decode_ratio": statistics.median(decodes), "pairs": pairs, "same_text": same,
            **{arm: {"rate": statistics.median(rates[arm]), "acceptance_length": statistics.fmean(lengths[arm])} for arm in rates}}


def of_schema(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}}


LINES = [
    ("free texts, as the prompt asks", of_schema(FREE), ASKED, "auto", 0.95),
    ("any text (a pattern)", {"structured_outputs": {"regex": ANY_TEXT}}, OPEN, "auto", 0.95),
    ("free texts, any JSON asked", of_schema(FREE), OPEN, "auto", 0.95),
    ("most tokens forced", of_schema(FORCED), OPEN, "auto", 1.3),
    ("free texts, as the prompt asks", of_schema(FREE), ASKED, "none", 0.97),
    ("any text (a pattern)", {"structured_outputs": {"regex": ANY_TEXT}}, OPEN, "none", 0.97),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=HERE.parents[1] / "build/release/bin/paceline")
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    config = {"version": 1, "server": {"port": 0}, "models": [{"name": "model", "path": str(Path(arguments.model).resolve())}]}
    lines, salts = [], itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        process, port = bench_daemon.start(arguments.bin, config, folder)
        url = f"http://{bench_daemon.HOST}:{port}"
        try:
            for _, constraint, *_ in LINES:  # compiled before it is timed
                compare(url, constraint, OPEN, "auto", 2, 20, salts)
            for name, constraint, prompts, drafter, bound in LINES:
                line = {"constraint": name, "drafter": drafter, "bound": bound} | compare(url, constraint, prompts, drafter, arguments.pairs, arguments.tokens, salts)
                line["verdict"] = "pass" if line["ratio"] >= bound else "short"
                lines.append(line)
                low, _, high = line["quartiles"]
                lengths = " | ".join(f"{line[arm]['rate']:.1f} ({line[arm]['acceptance_length']:.2f})" for arm in ("without", "with"))
                print(f"| {name}, `{drafter}` | {lengths} | {line['same_text']} of {line['pairs']} | {line['ratio']:.3f} ({low:.3f} to {high:.3f}) | "
                      f"{bound} | {line['verdict']} | {line['decode_ratio']:.3f} |", flush=True)
        finally:
            bench_daemon.stop(process)
    if arguments.out:
        arguments.out.write_text(json.dumps(lines, indent=1) + "\n")
    return int(any(line["verdict"] == "short" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
