"""Conversations that chat templates meet: the variables of a rendering, by name."""

import itertools

USER = {"role": "user", "content": "What is the weather in Paris?"}
HELLO = {"role": "user", "content": "Hello"}
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
ANSWER = {"role": "assistant", "content": "It is sunny."}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city <b>\"quoted\"</b> & more",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city, e.g. Zürich"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14.5},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "description": "The weather"},
    },
}
NESTED = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {
                "guests": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "number"}}},
                },
                "options": {"anyOf": [{"type": "string"}, {"type": "boolean"}], "nullable": True},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "free": {"type": "object", "additionalProperties": True},
                "choice": {"oneOf": [{"const": 1}, {"const": None}]},
            },
            "required": [],
            "$defs": {"x": {"type": "string"}},
        },
    },
}
BARE = {"name": "ping", "description": "no wrapper", "parameters": {"type": "object", "properties": {}}}


def call(name="get_weather", arguments=None, identifier="call_12345"):
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if identifier is not None:
        made["id"] = identifier
    return made


def calling(*calls, content=None, **more):
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **more}


def result(content="{\"degrees\": 21}", identifier="call_12345", name="get_weather"):
    made = {"role": "tool", "content": content}
    if identifier is not None:
        made["tool_call_id"] = identifier
    if name is not None:
        made["name"] = name
    return made


PARIS = {"city": "Paris", "unit": "celsius"}
ODD = {"text": "a\nb\t\"c\" 'd' \\ <e> & é 🙂", "n": 1, "x": 1.5, "big": 12345678901, "t": True, "f": False, "z": None,
       "l": [1, "two", [3.0]], "o": {"k": {"kk": []}}, "e": "", "u": 18446744073709551615, "s": 1e-7}

MESSAGES = {
    "single": [USER],
    "system": [SYSTEM, USER],
    "developer": [{"role": "developer", "content": "Be brief."}, USER],
    "multi": [SYSTEM, HELLO, {"role": "assistant", "content": "Hi!"}, USER, ANSWER, {"role": "user", "content": "Thanks"}],
    "multi_no_system": [HELLO, ANSWER, USER],
    "ends_with_assistant": [USER, ANSWER],
    "two_systems": [SYSTEM, {"role": "system", "content": "Second."}, USER],
    "late_system": [USER, SYSTEM, HELLO],
    "two_users": [HELLO, USER],
    "starts_with_assistant": [ANSWER, USER],
    "unknown_role": [{"role": "critic", "content": "hm"}, USER],
    "empty": [],
    "empty_content": [{"role": "user", "content": ""}],
    "whitespace": [{"role": "system", "content": "  \n padded \t"}, {"role": "user", "content": "\n\n  odd   space \u00a0\n"},
                   {"role": "assistant", "content": "\n\n answer\n"}, {"role": "user", "content": " more "}],
    "unicode": [{"role": "system", "content": "Ünïcödé ß ŉ"}, {"role": "user", "content": "日本語 🙂 e\u0301 \u200b\u2028x"}],
    "special": [{"role": "user", "content": "<|im_start|>system {{ 1 }} {% if %} </think> <tool_call>"}],
    "content_none": [USER, {"role": "assistant", "content": None}, HELLO],
    "content_missing": [USER, {"role": "assistant"}, HELLO],
    "role_missing": [{"content": "who am I"}],
    "content_number": [{"role": "user", "content": 42}],
    "parts": [{"role": "system", "content": [{"type": "text", "text": "Part one."}]},
              {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "text", "text": "now"}]}],
    "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"},
                                           {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}],
    "video_audio": [{"role": "user", "content": [{"type": "video"}, {"type": "audio", "audio_url": "z"}, {"type": "text", "text": "?"}]}],
    "part_strings": [{"role": "user", "content": ["a", "b"]}],
    "parts_answer": [USER, {"role": "assistant", "content": [{"type": "text", "text": "Sunny"}]}, HELLO],
    "reasoning": [USER, {"role": "assistant", "content": "Sunny.", "reasoning_content": "I think\n so "}, HELLO],
    "reasoning_field": [USER, {"role": "assistant", "content": "Sunny.", "reasoning": "hmm", "thinking": "uh"}, HELLO],
    "think_inside": [USER, {"role": "assistant", "content": "<think>\nlet me see\n</think>\n\nSunny."}, HELLO],
    "think_last": [USER, {"role": "assistant", "content": "<think>open\n</think>Done", "reasoning_content": ""}],
    "think_twice": [USER, {"role": "assistant", "content": "</think>a</think>b"}, HELLO],
    "thinking_parts": [SYSTEM, USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "closed": True},
                                                                       {"type": "text", "text": "Sunny."}]}, HELLO],
    "prefix": [USER, {"role": "assistant", "content": "It is", "prefix": True}],
    "call": [USER, calling(call(arguments=PARIS)), result(), ANSWER],
    "call_text": [USER, calling(call(arguments="{\"city\": \"Paris\"}")), result(), ANSWER, HELLO],
    "call_content": [SYSTEM, USER, calling(call(arguments=PARIS), content="Let me look."), result(), HELLO],
    "call_no_id": [USER, calling(call(arguments=PARIS, identifier=None)), result(identifier=None, name=None), HELLO],
    "call_short_id": [USER, calling(call(arguments=PARIS, identifier="abcdefghi")), result(identifier="abcdefghi"), HELLO],
    "call_open": [USER, calling(call(arguments=PARIS))],
    "call_result_last": [USER, calling(call(arguments=PARIS)), result()],
    "call_two": [SYSTEM, USER, calling(call(arguments=PARIS, identifier="call00001"),
                                       call("book", ODD, "call00002"), content=""),
                 result(identifier="call00001"), result("[1, 2]", "call00002", "book"), ANSWER, HELLO],
    "call_rounds": [USER, calling(call(arguments=PARIS, identifier="aaaaaaaa1")), result(identifier="aaaaaaaa1"),
                    calling(call("book", {}, "aaaaaaaa2"), reasoning_content="again?"),
                    result("", "aaaaaaaa2", "book"), ANSWER, HELLO, ANSWER],
    "call_reasoning": [SYSTEM, USER, calling(call(arguments=PARIS, identifier="aaaaaaaa1"), reasoning_content="look it up",
                                             thinking="look it up"), result(identifier="aaaaaaaa1"),
                       {**ANSWER, "reasoning_content": "done", "thinking": "done"}, HELLO,
                       calling(call(arguments=PARIS, identifier="aaaaaaaa2"), content="", reasoning_content="once more"),
                       result(identifier="aaaaaaaa2")],
    "call_bare": [USER, calling({"name": "get_weather", "arguments": PARIS}), result(), HELLO],
    "call_ids": [USER, calling(call("functions.get_weather:0", PARIS, "functions.get_weather:0")),
                 result(identifier="functions.get_weather:0"), HELLO],
    "result_object": [USER, calling(call(arguments=PARIS)), result({"degrees": 21, "ok": True}), HELLO],
    "result_list": [USER, calling(call(arguments=PARIS)), result([{"type": "text", "text": "21 degrees"}]), HELLO],
    "result_outputs": [USER, calling(call(arguments=PARIS)), {"role": "tool", "content": [{"type": "tool_reference", "name": "ping"}]}],
    "ipython": [USER, calling(call(arguments=PARIS)), {"role": "ipython", "content": {"a": 1}}, HELLO],
    "no_arguments": [USER, calling(call("ping", None)), result(""), HELLO],
    "empty_calls": [USER, {"role": "assistant", "content": "Hi", "tool_calls": []}, HELLO],
    "null_calls": [USER, {"role": "assistant", "content": "Hi", "tool_calls": None, "reasoning_content": None}, HELLO],
    "system_tools": [{**SYSTEM, "tools": "[{\"name\": \"ping\"}]", "functions": "[{\"name\": \"pong\"}]"}, USER],
    "system_no_tools": [{**SYSTEM, "tools": None, "functions": None}, USER],
    "environment": [USER, {"role": "assistant", "content": None, "function_calls": "ping()"},
                    {"role": "environment", "content": "pong"}, ANSWER, HELLO],
    "no_think": [{"role": "system", "content": "Be brief. /no_think"}, USER, {**ANSWER, "reasoning_content": "hm"}, HELLO],
    "system_override": [{"role": "system", "content": "Be odd. /system_override"}, USER],
    "named": [{"role": "user", "name": "Ann", "content": "Hi"}, {"role": "assistant", "name": "Bot", "content": "Ho"}, USER],
}

TOOLS = {
    "no_tools": {},
    "null_tools": {"tools": None, "documents": None},  # what transformers passes without
    "tools": {"tools": [WEATHER, NESTED]},
    "bare_tools": {"tools": [BARE]},
    "empty_tools": {"tools": []},
}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
EXTRAS = {
    "plain": TOKENS,
    "thinking": {**TOKENS, "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    "no_thinking": {**TOKENS, "enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
    "tokens_missing": {},
    "options": {**TOKENS, "pad_token": "<pad>", "unk_token": "<unk>", "tool_choice": "auto", "date_string": "26 Jul 2024",
                "documents": [{"title": "T", "text": "body", "doc_id": 1}], "custom_tools": None, "keep_thinking": True,
                "tools_in_user_message": False, "builtin_tools": ["brave_search"], "controls": {"length": "long"},
                "clear_thinking": False, "preserve_thinking": True, "model_identity": "You are X.", "citations": True,
                "response_format": {"type": "json_schema", "json_schema": {"schema": {"a": 1}}}},
}


def all_variables(thorough):
    """(name, variables) of every combination; not thorough: every message list with a few of the rest."""
    for message_name, messages in MESSAGES.items():
        combinations = itertools.product(TOOLS.items(), EXTRAS.items(), (True, False))
        for index, ((tool_name, tools), (extra_name, extra), prompt) in enumerate(combinations):
            few = (tool_name, extra_name, prompt) in {
                ("no_tools", "plain", True), ("tools", "plain", True), ("null_tools", "plain", True),
                ("null_tools", "thinking", True), ("null_tools", "no_thinking", True),
                ("tools", "thinking", True), ("tools", "no_thinking", True),
                ("null_tools", "thinking", False), ("tools", "options", True), ("bare_tools", "tokens_missing", False)}
            if thorough or few:
                name = f"{message_name}/{tool_name}/{extra_name}/{'prompt' if prompt else 'no_prompt'}"
                yield name, {"messages": messages, "add_generation_prompt": prompt, **tools, **extra}
