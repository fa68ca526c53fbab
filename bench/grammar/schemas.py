"""How well JSON schemas are enforced: the public test suite of draft 2020-12, and texts drawn from schemas of our own.

    bench/grammar/schemas.py MODEL.gguf [--out table.md]

The suite comes with the source package of jsonschema (pinned by hash, kept in .cache/downloads). A group is supported if
its schema compiles, every valid instance is accepted and every invalid one is not. An instance counts as accepted if one
order of its members is, because the grammar has one order; it is tried as json.dumps writes it, and without spaces.
"""
import argparse
import hashlib
import itertools
import json
import random
import re
import subprocess
import tarfile
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
NAME = "jsonschema-4.26.0.tar.gz"
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
FOLDER = "jsonschema-4.26.0/json/tests/draft2020-12/"


def suite():
    """(file, group) of all required groups."""
    archive = ROOT / ".cache/downloads" / NAME
    if not archive.exists():
        index = "https://pypi.org/simple/jsonschema/"
        with urllib.request.urlopen(index, timeout=60) as page:
            links = re.findall(r'href="([^"#]+)', page.read().decode())
        link = next(link for link in links if link.endswith("/" + NAME))
        archive.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(urllib.parse.urljoin(index, link), timeout=60) as source:
            archive.write_bytes(source.read())
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{archive} is not the package that this script expects")
    with tarfile.open(archive) as package:
        for member in sorted(package.getmembers(), key=lambda m: m.name):
            if member.name.startswith(FOLDER) and member.name.count("/") == FOLDER.count("/"):
                for group in json.load(package.extractfile(member)):
                    yield member.name.removeprefix(FOLDER).removesuffix(".json"), group


def ask(model, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    tool = ROOT / "build/release/bin/constrain_lines"
    done = subprocess.run([tool, model], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def orders(value, limit=24):
    """`value` with its members in several orders, at most `limit` of them."""
    if isinstance(value, dict):
        found = []
        for keys in itertools.permutations(value):
            for values in itertools.product(*(orders(value[key], 6) for key in keys)):
                found.append(dict(zip(keys, values)))
                if len(found) >= limit:
                    return found
        return found
    if isinstance(value, list):
        return [list(v) for v in itertools.islice(itertools.product(*(orders(v, 6) for v in value)), limit)]
    return [value]


def run_suite(model):
    groups = list(suite())
    lines, spans = [], []
    for _, group in groups:
        texts, of = [], []
        for test in group["tests"]:
            for separators in (None, (",", ":")):
                texts_of_it = [json.dumps(one, separators=separators) for one in orders(test["data"])]
                of.append((range(len(texts), len(texts) + len(texts_of_it)), test["valid"]))
                texts += texts_of_it
        lines.append({"kind": "json_schema", "source": json.dumps(group["schema"]), "texts": texts})
        spans.append(of)
    table, others = defaultdict(Counter), []
    for (file, group), of, answer in zip(groups, spans, ask(model, lines)):
        row = table[file]
        row["groups"] += 1
        if "error" in answer:
            nothing_is_valid = not any(valid for _, valid in of)
            message = answer["error"]["message"]
            outcome = "nothing" if nothing_is_valid and "no value obeys it" in message else "refused"
            row[outcome] += 1
            others.append((file, group["description"], "nothing is valid, refused" if outcome == "nothing" else f"refused: {message}"))
            continue
        accepted = [(any(answer["accepted"][i] for i in span), valid) for span, valid in of]
        if any(a and not v for a, v in accepted):
            row["too much"] += 1
            others.append((file, group["description"], "allows too much"))
        elif all(a == v for a, v in accepted):
            row["supported"] += 1
        else:
            row["too little"] += 1
            others.append((file, group["description"], "allows too little"))
    return table, others


def made_schema(rng, depth=0):
    """A schema of the kinds that clients send."""
    kinds = ["string", "integer", "number", "boolean", "enum", "const", "null"]
    kind = rng.choice(kinds + (["object", "array", "anyOf", "tuple", "oneOf"] * 2 if depth < 3 else []))
    inner = lambda: made_schema(rng, depth + 1)
    if depth == 0:
        kind = rng.choice(["object", "object", "array", "anyOf"])
    if kind == "string":
        return {"type": "string", **rng.choice([{}, {"maxLength": rng.randrange(1, 30)}, {"minLength": 2, "maxLength": 9},
                                               {"pattern": rng.choice(["^[a-z]+$", "^[A-Z]{2}-[0-9]{1,4}$", "^(yes|no)$", "[0-9]"])},
                                               {"format": rng.choice(["date", "uuid", "ipv4", "time", "date-time", "email"])}])}
    if kind in ("integer", "number"):
        low = rng.randrange(-50, 50)
        return {"type": kind, **rng.choice([{}, {"minimum": low}, {"maximum": low}, {"minimum": low, "exclusiveMaximum": low + rng.randrange(2, 900)}])}
    if kind == "enum":
        return {"enum": rng.sample(["red", "green", "blue", 1, 2.5, None, True, "", "a b", "ü"], rng.randrange(1, 6))}
    if kind == "const":
        return {"const": rng.choice(["x", 7, False, {"a": [1, "b"]}, []])}
    if kind == "array":
        return {"type": "array", "items": inner(), **rng.choice([{}, {"minItems": 1}, {"maxItems": 3}, {"minItems": 2, "maxItems": 4}])}
    if kind == "tuple":
        return {"type": "array", "prefixItems": [inner(), inner()], "items": rng.choice([False, inner()]), "minItems": rng.randrange(3)}
    if kind == "anyOf":
        return {"anyOf": [inner(), inner()]}
    if kind == "oneOf":
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": name}, "value": inner()}, "required": ["kind"]} for name in ("a", "b")]}
    if kind == "object":
        names = rng.sample(["id", "name", "tags", "size", "on", "next", "été", "a/b"], rng.randrange(1, 5))
        schema = {"type": "object", "properties": {name: inner() for name in names},
                  "required": rng.sample(names, rng.randrange(len(names) + 1))}
        return {**schema, **rng.choice([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}])}
    return {"type": kind}


def made_combination(rng, depth=0):
    """A schema of combined keywords, which hand-written schemas and generators have more rarely."""
    inner = lambda: made_combination(rng, depth + 1)
    small = lambda: rng.choice([{"const": rng.choice(["a", 1, None, True, 2.5])}, {"type": rng.choice(["string", "integer", "boolean", "null"])},
                                {"multipleOf": rng.choice([2, 3, 0.5, 0.01])}, {"minimum": rng.randrange(9)}, {"pattern": rng.choice(["^a", "b$", "x|y"])}, True])
    kinds = ["not", "if", "oneOf", "multipleOf", "allOf", "anyOf"] + (["contains", "unique", "object", "prefix", "dependent", "id", "patterns"] * 2 if depth < 2 else [])
    kind = rng.choice(kinds)
    if kind == "not":
        return {"type": ["string", "integer", "null", "boolean", "number"], "not": rng.choice([small(), {"enum": ["a", 1, True, 7.5]}, {"type": "string"}])}
    if kind == "if":
        return {"type": ["integer", "null", "boolean", "string"], "if": small(), "then": small(), **rng.choice([{}, {"else": small()}])}
    if kind in ("oneOf", "anyOf", "allOf"):
        return {kind: [small(), small()]}
    if kind == "multipleOf":
        return {"type": rng.choice(["number", "integer"]), "multipleOf": rng.choice([0.1, 0.25, 1.5, 7, 12, 0.03]),
                **rng.choice([{}, {"minimum": 0}, {"exclusiveMaximum": 0}, {"minimum": -3, "maximum": 50.5}])}
    if kind == "contains":
        return {"type": "array", "items": rng.choice([True, {"type": ["integer", "string"]}]), "contains": small(),
                **rng.choice([{}, {"minContains": rng.randrange(3)}]), **rng.choice([{}, {"maxContains": rng.randrange(1, 4)}]),
                **rng.choice([{}, {"maxItems": 4}]), **rng.choice([{}, {"unevaluatedItems": False, "prefixItems": [True]}])}
    if kind == "unique":
        return {"type": "array", "uniqueItems": True, "items": {"enum": rng.sample(["a", "b", 1, 1.5, None, True, "c", "d"], rng.randrange(1, 9))}}
    if kind == "prefix":
        return {"type": "array", "not": {"prefixItems": [small()]}, "maxItems": 3}
    if kind == "dependent":
        return {"type": "object", "properties": {"a": inner(), "b": inner()}, "dependentRequired": {"a": ["b"]}, "not": {"required": ["c"]}, "additionalProperties": False}
    if kind == "id":
        return {"$id": f"http://x/{rng.random()}", "$defs": {"a": {"$anchor": "here", **inner()}}, "type": "object", "properties": {"next": {"$ref": "#here"}}, "additionalProperties": {"$ref": "#/$defs/a"}}
    if kind == "patterns":
        return {"type": "object", "properties": {"foo": inner()}, "patternProperties": {"^a": inner(), "b$": small()}, "additionalProperties": rng.choice([False, small()]),
                **rng.choice([{}, {"propertyNames": {"maxLength": 5}}])}
    names = rng.sample(["a", "b", "c", "d"], 3)
    return {"type": "object", "properties": {names[0]: inner(), names[1]: inner()}, "required": names[1:], **rng.choice([{}, {"unevaluatedProperties": False}, {"minProperties": 2}])}


def run_own(model, make, count=200, samples=5):
    rng = random.Random(1)
    schemas = [make(rng) for _ in range(count)]
    lines = [{"kind": "json_schema", "source": json.dumps(s), "samples": samples, "seed": i, "max_tokens": 100} for i, s in enumerate(schemas)]
    result, worst = Counter(), 0
    for schema, answer in zip(schemas, ask(model, lines)):
        if "error" in answer:
            nothing_is_valid = "no value obeys it" in answer["error"]["message"]
            result["nothing is valid" if nothing_is_valid else "refused"] += 1
            continue
        result["compiled"] += 1
        worst = max(worst, answer["seconds"])
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for text in answer["outputs"]:
            if text is None:
                result["not ended"] += 1
                continue
            try:
                valid = validator.is_valid(json.loads(text))
            except ValueError:
                valid = False
            result["valid" if valid else "invalid"] += 1
            if not valid:
                print("invalid:", json.dumps(schema), text)
    return result, worst


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model")
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    table, others = run_suite(options.model)
    columns = ["groups", "supported", "nothing", "too little", "refused", "too much"]
    total = Counter()
    lines = ["| file | groups | supported | nothing is valid, refused | allows too little | refused | allows too much |", "| --- |" + " ---: |" * 6]
    for file, row in table.items():
        total.update(row)
        lines.append(f"| {file} | " + " | ".join(str(row[c]) for c in columns) + " |")
    lines.append("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    lines += ["", "Every group that is not supported:", "", "| file | group | |", "| --- | --- | --- |"]
    lines += [f"| {file} | {group} | {why} |".replace("\n", " ") for file, group, why in others]
    for name, make in (("Own schemas", made_schema), ("Combinations of keywords", made_combination)):
        own, worst = run_own(options.model, make)
        lines += ["", f"{name}: {dict(own)}; the slowest compilation took {worst:.3f} s."]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
