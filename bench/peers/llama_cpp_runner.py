"""Times llama.cpp, through llama-cpp-python, in a process of its own. Prints one JSON object.

decode: one token at a time, greedy, behind a prompt of made-up tokens: the median rate of `--repeats` runs.
prefill: a prompt of `--tokens` made-up tokens, evaluated in one call.
lookup: the prompts of a workload file, with and without prompt lookup, in alternating order.
"""
import argparse
import json
import random
import statistics
import sys
import time

import numpy as np
from llama_cpp import Llama
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


def open_model(args, **more):
    return Llama(args.model, n_ctx=args.context, n_threads=args.threads, n_threads_batch=args.threads, verbose=False, **more)


def made_up(model, count, seed):
    rng = random.Random(seed)
    return [rng.randrange(100, min(model.n_vocab(), 30000)) for _ in range(count)]


def greedy(model):
    # Looked at where they lie: a slice of the pointer would make a list of them, which takes longer than a pass.
    logits = np.ctypeslib.as_array(model._ctx.get_logits_ith(-1), shape=(model.n_vocab(),))
    return int(np.argmax(logits))


def decode(args):
    model = open_model(args)
    rates = []
    for repeat in range(args.repeats + 1):
        model.reset()
        model.eval(made_up(model, args.prompt_tokens, args.seed))
        token = greedy(model)
        begin = time.perf_counter()
        for _ in range(args.tokens - 1):
            model.eval([token])
            token = greedy(model)
        if repeat > 0:
            rates.append((args.tokens - 1) / (time.perf_counter() - begin))
    return {"tokens_per_second": statistics.median(rates), "runs": rates}


def prefill(args):
    model = open_model(args, n_batch=args.prompt_tokens, n_ubatch=args.prompt_tokens)
    rates = []
    for repeat in range(args.repeats + 1):
        prompt = made_up(model, args.prompt_tokens, args.seed + repeat)
        model.reset()
        begin = time.perf_counter()
        model.eval(prompt)
        greedy(model)
        if repeat > 0:
            rates.append(args.prompt_tokens / (time.perf_counter() - begin))
    return {"tokens_per_second": statistics.median(rates), "runs": rates}


def lookup(args):
    plain = open_model(args)
    # It keeps the logits of all rows, and makes room for them only when told so (a prompt over 512 tokens fails else).
    looking = open_model(args, logits_all=True, draft_model=LlamaPromptLookupDecoding(num_pred_tokens=args.draft_length))
    pairs = []
    with open(args.workload, encoding="utf-8") as file:
        items = [json.loads(line) for line in file][: args.requests]
    for number, item in enumerate(items):
        rates = {}
        for name, model in [("plain", plain), ("lookup", looking)][:: 1 if number % 2 == 0 else -1]:
            begin = first = None
            count = 0
            for part in model.create_chat_completion(item["messages"], max_tokens=args.tokens, temperature=0, stream=True):
                if "content" in part["choices"][0]["delta"]:
                    first = first or time.perf_counter()
                    count += 1
            rates[name] = (count - 1) / (time.perf_counter() - first) if count > 1 else None
        if rates["plain"] and rates["lookup"]:
            pairs.append(rates)
        print(f"{number + 1} of {len(items)}", end="\r", file=sys.stderr)
    return {"pairs": pairs, "speed_up": statistics.median(p["lookup"] / p["plain"] for p in pairs)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["decode", "prefill", "lookup"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt-tokens", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workload")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--draft-length", type=int, default=8)
    args = parser.parse_args()
    print(json.dumps({"bench": args.what, **globals()[args.what](args)}))


if __name__ == "__main__":
    main()
