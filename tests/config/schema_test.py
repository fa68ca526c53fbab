"""config/schema.json against the examples, and against mistakes that the parser refuses too."""
import copy
import json
import os
import pathlib

import jsonschema
import pytest
from ruamel.yaml import YAML

ROOT = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"]) / "config"
SCHEMA = json.loads((ROOT / "schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GOOD = {"version": 1, "models": [{"kind": "hash", "drafters": [{"name": "a", "kind": "ngram"}]}], "server": {}}


def read(path):
    return json.loads(json.dumps(YAML(typ="safe", pure=True).load(path)))


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_follows_the_schema(path):
    VALIDATOR.validate(read(path))


@pytest.mark.parametrize("where, key, value, good", [
    (("server",), "port", 65535, True),
    (("server",), "port", 65536, False),
    (("server",), "port", "80", False),
    (("server",), "port", "${PORT:-80}", True),
    (("server",), "prot", 1, False),
    (("server",), "max_body", "4MiB", True),
    (("server",), "max_body", "4MB", False),
    (("server",), "request_timeout", "90s", True),
    (("server",), "request_timeout", 90, False),
    (("models", 0), "kind", "gguf", False),
    (("models", 0), "kv", {"dtype": "f32"}, True),
    (("models", 0), "kv", {"dtype": "q8"}, True),
    (("models", 0), "kv", {"dtype": "f64"}, False),
    (("models", 0, "drafters", 0), "draft_length", 64, False),
    (("models", 0, "drafters", 0), "draft_length", 0, True),
    ((), "models", [{"kind": "hash"}] * 128, True),
    ((), "models", [{"kind": "hash"}] * 129, False),
    ((), "version", 2, False),
    ((), "remote_workers", [], False),
])
def test_the_schema_refuses_what_the_parser_refuses(where, key, value, good):
    document = copy.deepcopy(GOOD)
    target = document
    for step in where:
        target = target[step]
    target[key] = value
    assert VALIDATOR.is_valid(document) == good


def test_the_version_is_required():
    assert not VALIDATOR.is_valid({})
