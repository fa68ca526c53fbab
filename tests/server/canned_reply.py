"""Streams of chat replies with traces, as docs/protocol.md describes them, for what no real model says on demand."""
import json


def plain(text, token=1):
    """A round without a draft."""
    return {"draft": [], "accepted": [], "own": text, "token": token}


def drafted(draft, accepted, own, parents=None, drafter="ngram"):
    """A round: the texts of a draft (a chain unless there are parents), the nodes accepted, the model's own token."""
    parents = parents or list(range(-1, len(draft) - 1))
    return {"draft": draft, "parents": parents, "accepted": accepted, "own": own, "drafter": drafter}


def trace(number, what, base):
    """A round on the wire. Rounds take 20 ms, of which the first is drafting."""
    draft, accepted = what["draft"], what["accepted"]
    texts = [draft[node] for node in accepted] + [what["own"]]
    begin = number * 20_000
    children = [node for node, parent in enumerate(what.get("parents", [])) if parent == (accepted[-1] if accepted else -1)]
    out = {
        "round": number, "base_length": base, "drafter": what.get("drafter", ""), "draft_tokens": [100 + node for node in range(len(draft))],
        "draft_texts": draft, "parents": what.get("parents", []), "accepted": accepted, "num_accepted": len(accepted), "bonus": not children,
        "tokens": [100 + node for node in accepted] + [what.get("token", 7)], "token_texts": texts, "start_us": begin + 1000, "end_us": begin + 20_000,
    }
    if draft:
        out |= {"draft_start_us": begin, "draft_end_us": begin + 900}
        out["auto"] = {"plain_to_measure": False, "options": [
            {"drafter": "ngram", "num_draft_tokens": len(draft), "expected_tokens": 2.5, "cost": 1.25}]}
    return out


def stream(rounds, explanation="drafts were rejected"):
    """The body of the event stream."""
    events = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}]
    base = 10
    for number, what in enumerate(rounds):
        told = trace(number, what, base)
        base += len(told["tokens"])
        events.append({"choices": [{"index": 0, "delta": {"content": "".join(told["token_texts"])}, "finish_reason": None,
                                    "token_ids": told["tokens"], "paceline": {"rounds": [told]}}]})
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": base - 10, "completion_tokens_details": {}},
                   "metrics": {"time_to_first_token_ms": 12.5, "tokens_per_second": 80.0, "explanation": explanation}})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def one_of_each():
    """A plain token, an accepted draft with a bonus token, a rejected draft, and a tree."""
    return stream([
        plain("The"),
        drafted([" quick", " brown"], [0, 1], " fox"),
        drafted([" sleeps", " now"], [], " jumps"),
        drafted([" under", " over", " a", " the"], [1, 3], " lazy", parents=[-1, -1, 1, 1], drafter="suffix"),
        plain("."),
    ])


def of_text(text):
    """A reply of one plain token for each piece of the text."""
    return stream([plain(piece) for piece in text.split("§")])


# § is where one token ends and the next begins.
MARKDOWN = """# A *title*§

Text with **bold**, *stress*, ~~gone~~, `co§de` and [a link](https://example.com/x "t").
Second § line with snake_case_name and 2 * 3 * 4.

- one
- two
  - inner `x`
    continued

1. first
2. second

> quoted §**text**

| a | b |
| - | :-: |
| 1 | `2|3` |

```python
def f(x):  # <b>not markup</b>
    return x * 2§
```

---
The e§nd."""
