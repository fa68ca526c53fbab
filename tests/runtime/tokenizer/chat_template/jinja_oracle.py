"""Python's jinja2 as transformers configures it, and the program under test, behind one interface."""

import datetime
import json
import subprocess

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

# What both sides take for now; chat_template_runner.cpp has the same.
NOW = datetime.datetime(2024, 7, 6, 9, 8, 7, 654321)


class GenerationBlocks(Extension):
    """{% generation %}: in transformers it tracks what the assistant wrote; the text is that of its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _support(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def transformers_environment(**changes):
    kind = SandboxedEnvironment if changes.pop("allow_mutation", False) else ImmutableSandboxedEnvironment
    settings = dict(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, loopcontrols])
    environment = kind(**{**settings, **changes})
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return environment


class Oracle:
    """Renders with jinja2; None where it raises."""

    def __init__(self, environment=None):
        self.environment = environment or transformers_environment()
        self.parsed = {}

    def render(self, source, variables):
        try:
            if source not in self.parsed:
                self.parsed[source] = self.environment.from_string(source)
            text = self.parsed[source].render(**variables)
            text.encode()  # lone surrogates are no text
            return text
        except Exception as error:  # every kind of failure counts the same
            self.reason = f"{type(error).__name__}: {error}"
            return None


def render_all(program, cases, options=None):
    """Ours for each (source, variables): a list of {"text": ...} or {"error": ...}."""
    lines = [json.dumps({"template": source, "variables": variables, "options": options or {}})
             for source, variables in cases]
    done = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"the program ended with {done.returncode}: {done.stderr[-2000:]}"
    results = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(results) == len(cases)
    return results


def difference(oracle, source, variables, ours):
    """None when both sides agree, else what to tell a person."""
    expected = oracle.render(source, variables)
    if expected is None and "error" in ours:
        return None
    if expected is not None and ours.get("text") == expected:
        return None
    shown = f"raises {oracle.reason}" if expected is None else repr(expected)
    return f"jinja2: {shown}\nours:   {ours.get('error') or repr(ours.get('text'))}"
