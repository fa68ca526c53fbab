"""Chat replies of the openai client in one form, whether they were streamed or not: content, thoughts, calls, and the reason of the end."""


def joined(chunks):
    content, reasoning, calls, finish = "", "", {}, None
    for chunk in chunks:
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
    return content, reasoning, list(calls.values()), finish


def whole(reply):
    choice = reply.choices[0]
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    return choice.message.content or "", getattr(choice.message, "reasoning_content", None) or "", calls, choice.finish_reason
