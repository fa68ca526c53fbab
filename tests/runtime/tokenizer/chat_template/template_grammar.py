"""Random small templates and values: every construct of the language, mostly valid, often failing on types."""

import re

TEXTS = ["", "a", "abc", "Hello World", " padded \n", "a,b,,c", "x\ny\r\nz\n", "ÄÖß é", "日本🙂", "\"q\" 'p'", "<b>&amp;</b>",
         "42", "-7", " 3.5 ", "1e3", "0x1f", "1_000", "nan", "True", "ABC def-ghi (jkl)", "\t\x0b\x1c tab", "a\u2028b\x85c",
         "</think>x</think>y", "{}", "{0} {k}", "%s|%d", "ŉ ﬁ ǰ Σας ΑΣ İı", "\u00a0nbsp\u3000", "back\\slash", "\x00\x7f\x1b",
         "one two  three", "aXbXc", "ab" * 20]
NAMES = ["a", "b", "c", "s", "t", "n", "f", "l", "d", "u", "m", "msgs", "missing", "loop", "x", "y", "ns"]
ATTRIBUTES = ["a", "b", "role", "content", "items", "keys", "values", "get", "upper", "strip", "missing", "index", "index0",
              "first", "last", "length", "_x", "name", "count", "x", "real", "0"]
FILTERS = ["upper", "lower", "trim", "title", "capitalize", "length", "list", "first", "last", "string", "int", "float",
           "abs", "reverse", "sort", "unique", "join", "tojson", "sum", "min", "max", "items", "dictsort", "safe", "escape",
           "e", "count", "round", "wordcount", "urlencode", "default('x')", "d('y', true)", "default", "join(', ')",
           "join('-', 'a')", "replace('a', 'b')", "replace('', '-', 2)", "tojson(indent=2)", "tojson(true)",
           "tojson(indent=1, sort_keys=true)", "tojson(separators=(',', ':'))", "map('upper')", "map(attribute='a')",
           "map(attribute='a', default='z')", "map('default', 0)", "map('tojson')", "select", "reject", "select('string')",
           "select('defined')", "reject('none')", "select('gt', 1)", "selectattr('a')", "selectattr('a', 'defined')",
           "selectattr('role', 'eq', 'user')", "rejectattr('a', 'none')", "rejectattr('role', 'in', ['user'])", "groupby('a')",
           "groupby('role')", "groupby('a', default=0)", "sort(reverse=true)", "sort(attribute='a')", "sort(case_sensitive=true)",
           "sort(attribute='role,a')", "dictsort(by='value')", "dictsort(true, reverse=true)", "batch(2)", "batch(2, 0)", "slice(2)",
           "slice(3, 'z')", "indent", "indent(2, true)", "indent('> ', blank=true)", "int(7)", "int(base=16)", "float(1.5)",
           "round(1)", "round(2, 'ceil')", "round(method='floor')", "round(-1)", "truncate(5)", "truncate(8, true)",
           "truncate(7, false, '!', 0)", "center(9)", "format(1, 'b')", "format(x=2)", "trim('a ')", "unique(true)", "attr('upper')",
           "attr('a')", "xmlattr", "filesizeformat", "filesizeformat(true)", "forceescape", "sum(start=1)", "sum('a')", "max(attribute='a')",
           "unknown_filter", "length(1)", "map", "map('nope')"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float", "boolean",
         "true", "false", "odd", "even", "callable", "lower", "upper", "escaped", "divisibleby 2", "divisibleby(3)", "eq 1",
         "eq('a')", "ne none", "in [1, 'a']", "in 'abc'", "sameas none", "sameas(true)", "gt 1", "lt('b')", "ge 0", "==(1)", "filter",
         "test", "equalto('abc')", "unknown_test", "greaterthan 0", "le 2.5"]
# Generators print their address: they are taken apart at once, except where only their items count.
LAZY_NAMES = {"map", "select", "reject", "selectattr", "rejectattr", "unique", "items", "batch", "slice", "reverse"}
LAZY = [name for name in FILTERS if name.split("(")[0] in LAZY_NAMES]
FILTERS = [name + "|list" if name in LAZY else name for name in FILTERS]
METHODS = ["upper()", "lower()", "strip()", "lstrip()", "rstrip('c ')", "strip('a')", "split()", "split(',')", "split(',', 1)",
           "split(None, 1)", "split('')", "rsplit('X', 1)", "rsplit()", "splitlines()", "splitlines(true)", "startswith('a')",
           "startswith(('x', 'a'))", "endswith('\\n')", "endswith('c', 1)", "find('b')", "find('b', -2)", "rfind('X')",
           "index('zz')", "index('b')", "count('a')", "count('')", "replace('a', 'ZZ')", "replace('a', '', 1)", "title()",
           "capitalize()", "swapcase()", "casefold()", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()",
           "istitle()", "isnumeric()", "isdecimal()", "isidentifier()", "isprintable()", "isascii()", "zfill(6)", "center(7)",
           "center(8, '*')", "ljust(5)", "rjust(6, '.')", "partition('b')", "rpartition('X')", "removeprefix('a')",
           "removesuffix('c')", "expandtabs(4)", "join(['a', 'b'])", "join(l)", "join([1])", "format(1, k='v')", "format(a, b)",
           "format_map(d)", "items()", "keys()", "values()", "get('a')", "get('zz', 5)", "get('zz')", "copy()", "append(1)", "pop()",
           "update({})", "index(1)", "count(1)", "bit_length()", "is_integer()", "nope()", "items", "keys()|list", "values()|list",
           "setdefault('a', 1)", "clear()", "sort()", "encode"]
FORMATS = ["{}", "{:>8}", "{:^9}|", "{:05}", "{:+d}", "{:,}", "{:.2f}", "{:e}", "{:g}", "{!r}", "{0}{0}", "{0[0]}", "{0.a}",
           "{{}}", "{:x}", "{:#b}", "{:10.3}", "{:<5}|", "{:*^7}", "{:%}", "{:_}", "{:s}", "{:.3}", "{", "}", "{1}", "{k}",
           "{!s:>4}", "{:{}}", "{:c}", "{:G}", "{: d}", "{:.0f}", "{:08.2f}", "{:08,}", "{:.1%}", "{:+}", "{0:>{1}}"]
PERCENTS = ["%s", "%d", "%r", "%5s|", "%-5s|", "%05d", "%x", "%.2f", "%g", "%e", "%+d", "% d", "%%", "%(a)s", "%c", "%.2s", "%i%%",
            "%s %s", "%#x", "%o", "%G", "%*d", "%z", "%"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def random_value(random, depth=0):
    kind = random.randrange(12 if depth < 3 else 8)
    if kind < 3:
        return random.choice(TEXTS)
    if kind < 5:
        return random.choice([0, 1, 2, 3, -1, 5, 10, 42, 255, 1000, -7, 10**15, 2**53, 2**63, 18446744073709551615])
    if kind == 5:
        return random.choice([0.0, 1.0, -0.5, 1.5, 2.675, 0.1, 1e16, 1e-5, 123456.789, 1e22, 5e-324, 3.0, -0.0, 100.0, 0.30000000000000004])
    if kind == 6:
        return random.choice([True, False])
    if kind == 7:
        return None
    if kind < 10:
        return [random_value(random, depth + 1) for _ in range(random.randrange(4))]
    keys = ["a", "b", "role", "content", "k", "ünï", "items", "0", "x y", "name"]
    return {random.choice(keys): random_value(random, depth + 1) for _ in range(random.randrange(5))}


def random_variables(random):
    variables = {name: random_value(random) for name in "abx"}
    variables.update(
        s=random.choice(TEXTS), t=random.choice(TEXTS), n=random.randrange(-3, 6), f=random.choice([1.5, 0.1, -2.0, 1e20, 7.25]),
        l=[random_value(random, 2) for _ in range(random.randrange(5))],
        d={key: random_value(random, 2) for key in random.sample(["a", "b", "c", "B", "role", "get"], random.randrange(5))},
        u=[random.choice(["b", "A", "a", "B", "c"]) for _ in range(random.randrange(6))],
        m=random.sample(range(20), random.randrange(6)),
        msgs=[{"role": random.choice(["user", "assistant", "system"]), "content": random.choice(TEXTS), "a": random.choice([1, 2, None, "1"])}
              for _ in range(random.randrange(4))])
    return variables


TEXT_FILTERS = [f for f in FILTERS if f.split("(")[0] in {
    "upper", "lower", "trim", "title", "capitalize", "length", "list", "first", "last", "string", "int", "float", "reverse", "wordcount",
    "urlencode", "safe", "escape", "e", "replace", "indent", "truncate", "center", "format", "default", "d", "tojson", "join", "sort",
    "forceescape", "unique", "count", "batch"}]
LIST_FILTERS = [f for f in FILTERS if f.split("(")[0] in {
    "length", "list", "first", "last", "string", "reverse", "sort", "unique", "join", "tojson", "sum", "min", "max", "count", "default", "map",
    "select", "reject", "selectattr", "rejectattr", "groupby", "batch", "slice", "upper", "trim"}]
DICT_FILTERS = ["items|list", "dictsort", "dictsort(by='value')", "dictsort(true, reverse=true)", "list", "length", "tojson", "tojson(indent=2)",
                "first", "string", "xmlattr", "urlencode", "join(', ')", "last", "tojson(indent=1, sort_keys=true)"]
NUMBER_FILTERS = ["int", "float", "abs", "round", "round(1)", "round(2, 'ceil')", "round(method='floor')", "round(-1)", "string",
                  "filesizeformat", "filesizeformat(true)", "tojson", "default(1)", "center(9)"]
DICT_METHODS = [m for m in METHODS if m.split("(")[0] in {"items", "keys", "values", "get", "copy"}]
LIST_METHODS = ["count(1)", "index(1)", "copy()", "count('a')"]
TEXT_METHODS = [m for m in METHODS if m not in DICT_METHODS and m not in LIST_METHODS + ["encode", "nope()", "append(1)", "pop()"]]

#: What {WORD} in a pattern may be.
WORDS = {"NAME": NAMES, "LISTNAME": ["l", "u", "m", "msgs", "b"], "TEXTFILTER": TEXT_FILTERS, "LISTFILTER": LIST_FILTERS,
         "DICTFILTER": DICT_FILTERS, "NUMBERFILTER": NUMBER_FILTERS, "TEXTMETHOD": TEXT_METHODS, "LISTMETHOD": LIST_METHODS,
         "DICTMETHOD": DICT_METHODS, "TEST": TESTS, "TYPETEST": TESTS[:14], "FILTER": FILTERS, "METHOD": METHODS,
         "LAZY": LAZY, "CONSUMER": ["list", "join(',')", "first", "length", "tojson", "sum", "max", "sort", "last", "default(1)|list", "list|first"],
         "ARITHMETIC": ["+", "-", "*", "/", "//", "%", "+", "-"]}

#: Expressions by kind: V any value, T text, N number, L list, D dict, F flag.
PATTERNS = {
    "V": ["{T}", "{T}", "{N}", "{L}", "{D}", "{F}", "{O}"],
    "T": ["s", "t", "a", "x", "{QUOTED}", "({T}).{TEXTMETHOD}", "s.{TEXTMETHOD}", "s|{TEXTFILTER}", "({T})|{TEXTFILTER}", "{QUOTED}|{TEXTFILTER}",
          "(({V}) ~ ({V}))", "s[{SLICE}]", "t[{SLICE}]", "(({T}) + ({T}))", "s|{TEXTFILTER}|{TEXTFILTER}"],
    "N": ["n", "f", "1", "2", "10", "2.5", "0.1", "7", "(({N}) {ARITHMETIC} ({N}))", "(({N}) {ARITHMETIC} ({N}))", "n ** 2", "2 ** n", "(f ** 2)", "n ** 3", "{LISTNAME}|length", "({N})|{NUMBERFILTER}"],
    "L": ["{LISTNAME}", "{LISTNAME}", "{LISTNAME}|{LISTFILTER}", "{LISTNAME}|{LISTFILTER}", "{LISTNAME}[{SLICE}]", "[{V}, {V}]", "[{V}]", "[]",
          "({L})|{LISTFILTER}", "{LISTNAME}|{LISTFILTER}|{LISTFILTER}", "{LISTNAME}.{LISTMETHOD}", "(({L}) + ({L}))", "{LISTNAME}|{LAZY}|{CONSUMER}"],
    "D": ["d", "d|{DICTFILTER}", "d.{DICTMETHOD}", "d.{DICTMETHOD}|list", "msgs[0]", "{'a': {V}, 'b': {V}}", "d['a']", "d.a", "d.get('b', {V})"],
    "F": ["{NAME} is {TYPETEST}", "{NAME} is not {TYPETEST}", "({V}) == ({V})", "({V}) != ({V})", "not {NAME}", "loop.first", "loop.last", "(({V}) and ({V}))",
          "(({V}) or ({V}))", "({N}) < ({N}) <= 5", "({T}) in ({T})", "'a' in u", "'role' in msgs[0]", "n > 1", "x", "s", "n is {TEST}", "s is {TEST}", "ns.a",
          "loop.index0 % 2 == 1", "not ({F})", "({V}) in ({L})", "({LISTNAME}|{LAZY}) is iterable", "(not {LISTNAME}|{LAZY})", "1 in {LISTNAME}|{LAZY}"],
    "O": ["(({V}) if {F} else {V})", "{NAME}", "{LITERAL}", "ns.a", "ns.b", "loop.index", "loop.nextitem", "loop.previtem", "loop.cycle('a', 'b')",
          "loop.revindex", "loop.length", "loop.changed(x)", "mac({V})", "mac({V}, q={V})", "(x if {F})", "({V}, {V})", "{FORMAT}.format(s)",
          "{FORMAT}.format(n)", "{FORMAT}.format(f)", "{FORMAT}.format(s, n)", "{FORMAT}.format(l)", "{FORMAT}.format(d)", "{PERCENT} % s",
          "{PERCENT} % n", "{PERCENT} % f", "{PERCENT} % (s, n)", "{PERCENT} % (n,)", "{PERCENT} % d", "{PERCENT} % (3, n)", "dict(d, z={V})",
          "range(n)|list", "namespace(a=1)", "strftime_now('%Y-%m-%d %I %p %a')", "[{V}, {V}]|tojson", "a", "b", "x", "y", "missing",
          "(caller() if caller)", "varargs", "kwargs", "({V})|{FILTER}", "{NAME}.{METHOD}"],
}
LEAVES = {"V": NAMES, "T": ["s", "t", "'z'"], "N": ["n", "f", "3"], "L": ["l", "u", "m", "msgs"], "D": ["d", "msgs[0]"], "F": ["n > 1", "true", "x"],
          "O": NAMES}


class Grammar:
    """`wild`: the share of choices made without looking at types, most of which fail."""

    def __init__(self, random, wild=0.01):
        self.random = random
        self.wild = wild
        self.in_loop = 0

    def pick(self, *choices):
        return self.random.choice(choices)

    # -- expressions that mostly have the type they are asked for

    def typed(self, kind="V", depth=0):
        """An expression of a kind: a pattern, its capitals in braces replaced by expressions of those kinds."""
        if depth > 4:
            return self.random.choice(LEAVES[kind])
        if self.random.random() < self.wild:
            return self.expression(3)
        pattern = self.random.choice(PATTERNS[kind])
        while "loop" in pattern and not self.in_loop and self.random.random() < 0.9:
            pattern = self.random.choice(PATTERNS[kind])
        return re.sub(r"\{([A-Z]+)\}", lambda found: self.part(found[1], depth), pattern)

    def part(self, kind, depth):
        if kind in PATTERNS:
            return self.typed(kind, depth + 1)
        if kind == "QUOTED":
            return self.quoted(self.random.choice(TEXTS))
        if kind == "FORMAT":
            return self.quoted(self.random.choice(FORMATS))
        if kind == "PERCENT":
            return self.quoted(self.random.choice(PERCENTS))
        if kind == "SLICE":
            bound = lambda: self.pick("", "1", "-1", "2", "-2", "0", "n", "none", "100")
            return self.pick("0", "-1", "1", "n", f"{bound()}:{bound()}", f"{bound()}:{bound()}:{self.pick('', '1', '-1', '2', '-3')}", "::-1", "1:")
        if kind == "LITERAL":
            return self.literal()
        return self.random.choice(WORDS[kind])

    # -- anything anywhere

    def literal(self):
        random = self.random
        kind = random.randrange(8)
        if kind < 3:
            return self.quoted(random.choice(TEXTS))
        if kind < 5:
            return str(random.choice([0, 1, 2, 3, 10, 100, "0x1F", "1_000", "0b11", "0o17", "00"]))
        if kind == 5:
            return random.choice(["1.5", "0.1", "2.0", "1e3", "1.5e-7", "1e16", "10.25", "1_0.5"])
        return random.choice(["true", "false", "none", "True", "None"])

    def quoted(self, text):
        quote = self.pick("'", '"')
        out = "".join({"\\": "\\\\", quote: "\\" + quote, "\n": "\\n", "\r": "\\r", "\x00": "\\x00"}.get(c, c) for c in text)
        return quote + out + quote

    def expression(self, depth=0):
        random = self.random
        if depth > 3:
            return random.choice(NAMES) if random.random() < 0.6 else self.literal()
        inner = lambda: self.expression(depth + 1)
        kind = random.randrange(30)
        if kind < 5:
            return random.choice(NAMES)
        if kind < 7:
            return self.literal()
        if kind < 10:
            return f"{inner()} {random.choice(OPERATORS)} {inner()}"
        if kind == 10:
            return f"({inner()})"
        if kind == 11:
            return f"{random.choice(['not ', '-', '+', 'not '])}{inner()}"
        if kind < 15:
            return f"{self.operand(depth)}|{random.choice(FILTERS)}"
        if kind == 15:
            return f"{self.operand(depth)}|{random.choice(FILTERS)}|{random.choice(FILTERS)}"
        if kind < 18:
            return f"{self.operand(depth)} is {self.pick('', '', 'not ')}{random.choice(TESTS)}"
        if kind < 21:
            return f"{self.operand(depth)}.{random.choice(METHODS)}"
        if kind == 21:
            return f"{self.operand(depth)}.{random.choice(ATTRIBUTES)}"
        if kind == 22:
            return f"{self.operand(depth)}[{self.subscript(depth)}]"
        if kind == 23:
            return "[" + ", ".join(inner() for _ in range(random.randrange(4))) + "]"
        if kind == 24:
            items = ", ".join(inner() for _ in range(random.randrange(3)))
            return f"({items},)" if items else "()"
        if kind == 25:
            return "{" + ", ".join(f"{self.pick(self.quoted('k'), self.quoted('a'), '1', 'true', inner())}: {inner()}" for _ in range(random.randrange(3))) + "}"
        if kind == 26:
            return f"{inner()} if {inner()}" + (f" else {inner()}" if random.random() < 0.8 else "")
        if kind == 27:
            return self.call(inner)
        if kind == 28:
            return f"{self.quoted(random.choice(FORMATS))}.format({', '.join(inner() for _ in range(random.randrange(3)))})"
        return f"{self.quoted(random.choice(PERCENTS))} % {self.pick(inner(), f'({inner()}, {inner()})', f'({inner()},)', 'd')}"

    def operand(self, depth):
        return self.pick(self.random.choice(NAMES), self.random.choice(NAMES), self.literal(), f"({self.expression(depth + 1)})")

    def subscript(self, depth):
        return self.pick("0", "-1", "1", "n", "'a'", "'role'", self.expression(depth + 2), "b")

    def call(self, inner):
        return self.pick(
            f"range({self.pick('3', 'n', '1, 5', '5, 0, -2', '0', inner())})", f"dict(a={inner()}, b=1)", f"dict(d, z={inner()})",
            f"namespace(a={inner()})", "ns.a", "ns.b", f"mac({inner()})", f"mac({inner()}, q={inner()})", "mac()", "mac(*l)", "mac(**d)", "mac(1, 2, 3)",
            f"loop.cycle('a', {inner()})", f"loop.changed({inner()})", "loop.index", "loop.last", "loop.nextitem", "loop.previtem", "loop.revindex",
            "loop.length", "loop.depth", "joiner()()", "cycler(1, 2).next()", f"raise_exception({inner()})", "strftime_now('%d %b %Y %H:%M:%S %f %j')",
            "caller()", "varargs", "kwargs", "self", f"unknown({inner()})", "range(3)|list", "loop(l)", "loop", "namespace(d).a", "range(10)[::3]")

    def tag(self, text):
        return self.pick("{% ", "{%- ", "{%+ ", "{%") + text + self.pick(" %}", " -%}", "%}", " %}", " +%}")

    def shown(self):
        return self.pick("{{ ", "{{- ", "{{") + self.typed() + self.pick(" }}", " -}}", " }}")

    def text(self):
        return self.pick("text ", "\n", "  \n  ", " a b ", "", "\n\n", "é🙂", "<|im_start|>", "{ }", "%}", "\t", "{#- c -#}", "{# c #}\n", "  {#+ c +#} ",
                         "{% raw %}{{ x }}{% endraw %}", "  {%- raw -%} {% if %} {%- endraw +%}\n", "#}", "}}", "\r\n", "{ ", "\u00a0 ")

    def assignment(self):
        names = self.pick("x", "y", "a", "x", "y", "ns.a", "ns.b", "_", "s", "x, y", "(x, y)", "x", "y", "x", self.target())
        value = f"{self.typed('V', 1)}, {self.typed('V', 1)}" if "," in names and self.random.random() < 0.9 else self.typed("V", 1)
        return f"set {names} = {value}"

    def target(self):
        return self.pick("x", "y", "a", "x, y", "k, v", "(x, y)", "ns.a", "ns.b", "_")

    def body(self, depth):
        count = self.random.randrange(1, 4)
        return "".join(self.statement(depth) for _ in range(count))

    def statement(self, depth=0):
        random = self.random
        kind = random.randrange(24 if depth < 3 else 9)
        if kind < 4:
            return self.text()
        if kind < 8:
            return self.shown()
        inner = lambda: self.body(depth + 1)
        if kind < 11:
            return self.tag(self.assignment())
        if kind < 14:
            branches = "".join(self.tag(f"elif {self.typed('F', 1)}") + inner() for _ in range(random.randrange(2)))
            otherwise = self.tag("else") + inner() if random.random() < 0.5 else ""
            return self.tag(f"if {self.typed('F', 1)}") + inner() + branches + otherwise + self.tag("endif")
        if kind < 18:
            iterable = self.pick(self.typed("L", 1), "l", "msgs", "d.items()", "d", "range(3)", "s", "u", "m", "d|items", "d|dictsort", "msgs|selectattr('a')", f"{random.choice(['l', 'u', 'msgs'])}|{random.choice(LAZY)}")
            target = "k, v" if iterable in {"d.items()", "d|items", "d|dictsort"} else self.random.choice(["x", "y", "a"] * 6 + ["k, v"])
            test = f" if {self.typed('F', 2)}" if random.random() < 0.25 else ""
            recursive = " recursive" if random.random() < 0.1 else ""
            self.in_loop += 1
            control = self.tag(f"if {self.typed('F', 2)}") + self.tag(self.pick("break", "continue")) + self.tag("endif") if random.random() < 0.2 else ""
            otherwise = self.tag("else") + inner() if random.random() < 0.25 else ""
            body = inner() + control + inner()
            self.in_loop -= 1
            return self.tag(f"for {target} in {iterable}{test}{recursive}") + body + otherwise + self.tag("endfor")
        if kind == 18:
            parameters = self.pick("", "p", "p=1, q=2", "p, q=1", "p=a, q=x", "q='z'")
            return self.tag(f"macro mac({parameters})") + inner() + self.pick("{{ p }}", "{{ q }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller() if caller }}", "{{ caller() if caller }}", "{{ caller() if caller }}") + self.tag("endmacro")
        if kind == 19:
            return self.tag(f"call{self.pick('', '(p)', '(p, q=2)')} mac({self.pick('', '1', '1, 2', 'q=3')})") + inner() + self.tag("endcall")
        if kind == 20:
            name = self.pick("upper", "trim", "lower", "title", "indent", "string", "replace('a', 'b')", random.choice(FILTERS))
            return self.tag("filter " + name) + inner() + self.tag("endfilter")
        if kind == 21:
            return self.tag(f"with {self.pick('x', 'y', 'a')} = {self.typed('V', 2)}{self.pick('', ', y = x', ', c = 1')}") + inner() + self.tag("endwith")
        if kind == 22:
            return self.tag(f"set {self.pick('x', 'y', 'ns.a')}{self.pick('', '', ' | upper', ' | trim | length')}") + inner() + self.tag("endset")
        return self.pick(self.tag("generation") + inner() + self.tag("endgeneration"), self.tag(f"block bl{random.randrange(1000)}{self.pick('', ' scoped')}") + inner() + self.tag("endblock"),
                         self.tag(f"print {self.typed('V', 2)}"))

    def template(self):
        start = "{% set ns = namespace(a=1, b=[]) %}" if self.random.random() < 0.9 else ""
        start += "{% macro mac(p, q=2) %}<{{ p }}{{ q }}{{ caller() if caller }}>{% endmacro %}" if self.random.random() < 0.9 else ""
        return start + self.body(0) + self.body(0)


#: What depends on addresses, on hash order or on Python's own numbers without limit, and so cannot be compared.
def is_comparable(text):
    marks = (" at 0x", "<generator", "iterator object", "<built-in", "<bound", "<function", "<class", "<jinja2.", "<reversed",
             "blockreference", "templatereference", "&lt;generator", "&lt;built-in", "&lt;function", "&lt;class")
    return text is None or not any(mark in text.lower() for mark in marks)
