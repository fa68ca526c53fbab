"""One run of OpenVINO GenAI over a GGUF file, by its own counters; prints it in the format of `llama-bench -o json`.

    .cache/peers/bin/python bench/peers/openvino_bench.py -m smollm2.gguf -t 2 -p 512 -n 0

It times whole requests, where llama-bench times passes: prompts by the time to the first token, decoding by the time per token
after it. A short request warms it up; the measured prompt has a different beginning, because prefixes are cached.
"""
import argparse
import json

import numpy
import openvino
import openvino_genai


def request(pipeline, first, prompt_tokens, new_tokens):
    """Counters of one greedy request of numbered tokens."""
    ids = openvino.Tensor(numpy.array([[first + 7 * i % 30000 for i in range(prompt_tokens)]], dtype=numpy.int64))
    settings = openvino_genai.GenerationConfig(max_new_tokens=new_tokens, ignore_eos=True, do_sample=False, apply_chat_template=False)
    return pipeline.generate(ids, settings).perf_metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", required=True, metavar="MODEL")
    parser.add_argument("-t", type=int, required=True, metavar="THREADS")
    parser.add_argument("-p", type=int, required=True, metavar="TOKENS", help="of the prompt that is timed; 0: none is")
    parser.add_argument("-n", type=int, required=True, metavar="TOKENS", help="that are decoded; 0: none is timed")
    args = parser.parse_args()
    pipeline = openvino_genai.LLMPipeline(args.m, "CPU", INFERENCE_NUM_THREADS=args.t)
    request(pipeline, 100, max(8, args.p), 4)
    if args.n > 0:
        rate = 1000 / request(pipeline, 200, 8, args.n + 1).get_tpot().mean
    else:
        rate = 1000 * args.p / request(pipeline, 200, args.p, 1).get_ttft().mean
    print(json.dumps([{"avg_ts": rate}]))


if __name__ == "__main__":
    main()
