#!/usr/bin/env python3
"""Random shapes of every architecture beside transformers: log-probabilities of small models that its own classes save.

    tests/e2e/architecture_fuzz.py --dump build/release/bin/logit_dump [--first N] [--count N] [--type TYPE ...]

Needs transformers 5.24 and PyTorch, which the tests' environment does not have. A number and a type determine a model: its shape, every
weight, the type and the division of its files. A text of 240 tokens is computed in passes of a drawn number of rows and of one row.
Each model prints a line: "ok" with the mean difference, "refused" with the message, "wrong" if the mean exceeds 1e-4, or "bits" if the
passes differ. A refusal is to be read: some shapes are outside the limits of docs/models.md. A mixture whose router has a tie can be
wrong by that alone; the line has the smallest distance of a chosen expert from the next one. Exit code 1 if any model is wrong.
"""
import argparse
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers

BOUND = 1e-4
NUM_TOKENS = 240
TYPES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "lfm2", "lfm2_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next", "granite",
         "ministral3", "olmo2", "olmo3", "phi3", "smollm3", "gemma3_text")
# Files of these have the factors of norms less one.
NORMS_LESS_ONE = ("gemma3", "qwen3_5", "qwen3_next")


def is_likely(draw, share=0.5):
    return draw.random() < share


def sizes(draw, whole_heads):
    """Sizes of a model. `whole_heads`: the hidden size is that of all heads."""
    kv_heads, head_dim = draw.choice([1, 1, 2, 3, 4]), draw.choice([4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 32, 40])
    heads = kv_heads * draw.choice([1, 2, 3, 4, 5])
    fields = {"vocab_size": draw.choice([53, 64, 97, 101, 131, 199]), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "num_hidden_layers": draw.choice([1, 2, 3, 4, 5, 6, 7]), "intermediate_size": draw.choice([17, 24, 33, 40, 56, 96, 100]),
              "rms_norm_eps": draw.choice([1e-6, 1e-5, 1e-4, 1e-3, 0.02]), "max_position_embeddings": draw.choice([32, 64, 100, 256, 512, 4096]),
              "tie_word_embeddings": is_likely(draw, 0.4), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
    if whole_heads:
        return fields | {"hidden_size": heads * (head_dim if heads * head_dim <= 160 else 8)}
    return fields | {"head_dim": head_dim, "hidden_size": draw.choice([23, 24, 29, 36, 40, 45, 48, 56, 60, 64, 72, 80, 100])}


def rotation(draw, fields, kinds=("default", "linear", "yarn", "llama3", "longrope"), share=None):
    """Rotary settings. May change the context in `fields`."""
    kind = draw.choice(kinds)
    settings = {"rope_type": kind, "rope_theta": draw.choice([50.0, 1234.5, 1e4, 5e5, 1e6, 1e7])}
    if share is not None:
        settings["partial_rotary_factor"] = share
    head_dim = fields.get("head_dim") or fields["hidden_size"] // fields["num_attention_heads"]
    if kind == "linear":
        settings["factor"] = draw.choice([1.0, 2.0, 3.7, 8.0])
    elif kind == "llama3":
        settings |= {"factor": draw.choice([2.0, 8.0, 32.0]), "low_freq_factor": draw.choice([0.7, 1.0, 1.5]), "high_freq_factor": draw.choice([2.0, 4.0, 7.0]),
                     "original_max_position_embeddings": draw.choice([16, 32, 64, 100, 200])}
        fields["max_position_embeddings"] = 512
    elif kind == "yarn":
        settings |= {"factor": draw.choice([1.0, 2.0, 4.0, 16.0, 40.5]), "original_max_position_embeddings": draw.choice([6, 16, 20, 32, 50, 64, 100, 4096])}
        choices = {"beta_fast": [2.0, 8.0, 32.0, 64.0], "beta_slow": [0.2, 1.0, 1.5, 2.0], "truncate": [True, False], "attention_factor": [0.5, 1.0, 1.7],
                   "mscale": [0.5, 1.0, 1.4], "mscale_all_dim": [0.5, 0.7, 1.0]}
        settings |= {key: draw.choice(values) for key, values in choices.items() if is_likely(draw, 0.4)}
    elif kind == "longrope":
        fields["max_position_embeddings"] = draw.choice([240, 512, 2048])
        pairs = int(head_dim * (share or 1)) // 2
        settings |= {"original_max_position_embeddings": draw.choice([16, 32, 100]), "short_factor": [1 + draw.random() for _ in range(pairs)],
                     "long_factor": [1 + 7 * draw.random() for _ in range(pairs)]}
        if is_likely(draw, 0.4):
            settings["factor"] = draw.choice([1.0, 4.0, 32.0])
    return settings


def kinds_of_layers(draw, fields, first, second, share=0.5):
    """A kind for each layer, of which at least one is `second`."""
    count = fields["num_hidden_layers"]
    kinds = [first if is_likely(draw, share) else second for _ in range(count)]
    if second not in kinds:
        kinds[draw.randrange(count)] = second
    return kinds


def experts(draw):
    count = draw.choice([1, 2, 3, 5, 7, 8, 11, 13, 17, 31, 64])
    return {"num_experts": count, "num_experts_per_tok": draw.choice([1, min(2, count), min(3, count), min(count, 32)]),
            "moe_intermediate_size": draw.choice([5, 8, 12, 17, 24, 40]), "norm_topk_prob": is_likely(draw)}


def dense_layers(draw, count):
    return {"decoder_sparse_step": draw.choice([1, 1, 2, 3]), "mlp_only_layers": draw.choice([[], [0], [count - 1]])}


def delta_rules(draw, fields):
    """Adds gated delta rules in some layers."""
    keys, share = draw.choice([1, 2, 3, 4]), draw.choice([0.25, 0.5, 0.75, 1.0])
    fields |= {"head_dim": draw.choice([8, 16, 24, 32, 40]), "linear_conv_kernel_dim": draw.choice([2, 3, 4, 5]), "linear_num_key_heads": keys,
               "linear_num_value_heads": keys * draw.choice([1, 2, 3, 4]), "linear_key_head_dim": draw.choice([4, 8, 12, 16, 20, 36, 64]),
               "linear_value_head_dim": draw.choice([1, 3, 5, 8, 10, 16, 24, 31, 48]),
               "layer_types": kinds_of_layers(draw, fields, "linear_attention", "full_attention", 0.6)}
    fields["rope_parameters"] = rotation(draw, fields, ("default", "default", "yarn", "linear"), share)


def shape_of(draw, model_type):
    """The fields of a config."""
    fields = sizes(draw, model_type in ("qwen2", "lfm2", "lfm2_moe", "granite", "olmo2", "olmo3", "phi3", "smollm3"))
    if model_type in ("llama", "gemma3_text"):  # their classes want a hidden size that the heads divide
        fields["hidden_size"] = fields["num_attention_heads"] * draw.choice([3, 5, 7, 8, 12])
    count, window = fields["num_hidden_layers"], draw.choice([1, 2, 3, 5, 8, 13, 16, 17, 64])
    if model_type in ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"):
        delta_rules(draw, fields)
        if model_type != "qwen3_5_text":
            fields |= experts(draw) | {"shared_expert_intermediate_size": draw.choice([3, 8, 17, 40])}
        if model_type == "qwen3_next":
            fields |= dense_layers(draw, count)
        if model_type == "qwen3_5_moe_text":
            del fields["intermediate_size"], fields["norm_topk_prob"]
        return fields
    fields["attention_bias"] = is_likely(draw) and model_type not in ("mistral", "qwen2", "lfm2", "lfm2_moe", "ministral3", "phi3")
    if model_type in ("olmo3", "gemma3_text"):
        fields |= {"sliding_window": window, "layer_types": kinds_of_layers(draw, fields, "sliding_attention", "full_attention")}
        both = [rotation(draw, fields, kinds) for kinds in (("default", "linear", "yarn", "llama3"), ("default", "linear", "yarn"))]
        for settings in both:
            settings.pop("truncate", None)  # transformers looks for it in the wrong place
        fields["rope_parameters"] = dict(zip(("full_attention", "sliding_attention"), both))
        if model_type == "gemma3_text":
            fields["query_pre_attn_scalar"] = draw.choice([4, 16, 100, 256])
        return fields
    if model_type == "phi3":
        head_dim = fields["hidden_size"] // fields["num_attention_heads"]
        share = draw.choice([share for share in (0.25, 0.5, 0.75, 1.0) if head_dim * share >= 2 and head_dim * share % 2 == 0])
        settings = rotation(draw, fields, ("default", "longrope"), share)
        own = {key: settings[key] for key in ("original_max_position_embeddings",) if key in settings}
        return fields | own | {"rope_parameters": settings, "sliding_window": draw.choice([None, 1, 5, 16, 64, 262144])}
    if model_type == "ministral3":
        settings = rotation(draw, fields, ("yarn", "default", "linear", "llama3"))
        settings.setdefault("original_max_position_embeddings", draw.choice([16, 50, 100]))
        return fields | {"rope_parameters": settings | {"llama_4_scaling_beta": draw.choice([0.0, 0.1, 0.7, 2.0])}}
    if model_type in ("lfm2", "lfm2_moe"):
        fields |= {"norm_eps": fields.pop("rms_norm_eps"), "conv_bias": is_likely(draw), "conv_L_cache": draw.choice([2, 3, 4, 5]),
                   "layer_types": kinds_of_layers(draw, fields, "conv", "full_attention", 0.6)}
        if model_type == "lfm2_moe":
            fields |= experts(draw) | {"use_expert_bias": is_likely(draw, 0.7), "routed_scaling_factor": draw.choice([0.5, 1.0, 2.5]),
                                       "num_dense_layers": draw.choice([0, 1, 2, count])}
        else:
            fields |= {"block_auto_adjust_ff_dim": is_likely(draw), "block_multiple_of": draw.choice([1, 7, 16, 256]),
                       "block_ffn_dim_multiplier": draw.choice([0.7, 1.0, 1.3, 2.0])}
        return fields | {"rope_parameters": rotation(draw, fields, ("default", "default", "yarn", "linear", "llama3"))}
    if model_type in ("qwen2", "qwen3", "qwen3_moe"):
        fields |= {"use_sliding_window": is_likely(draw), "sliding_window": window}
        if model_type == "qwen3_moe":
            fields |= experts(draw) | dense_layers(draw, count)
        elif is_likely(draw):
            fields["max_window_layers"] = draw.choice([0, 1, 2, count])
        elif fields["use_sliding_window"]:
            fields["layer_types"] = kinds_of_layers(draw, fields, "sliding_attention", "full_attention")
    elif model_type == "mistral":
        fields["sliding_window"] = draw.choice([None, window, window])
    elif model_type == "granite":
        fields |= {"embedding_multiplier": draw.choice([0.3, 1.0, 12.0]), "logits_scaling": draw.choice([0.7, 1.0, 3.0, 8.0]),
                   "residual_multiplier": draw.choice([0.22, 1.0, 1.5]), "attention_multiplier": draw.choice([0.0156, 0.2, 0.5, 1.0])}
    elif model_type == "smollm3":
        fields["no_rope_layers"] = [draw.choice([0, 1]) for _ in range(count)]
    return fields | {"rope_parameters": rotation(draw, fields)}


def randomise(model, model_type, seed):
    """Gives every weight another value than its default, of a size that keeps activations near 1."""
    noise = torch.Generator().manual_seed(seed)
    less_one = model_type.startswith(NORMS_LESS_ONE)
    tensors = list(model.named_parameters()) + [one for one in model.named_buffers() if "expert_bias" in one[0]]
    with torch.no_grad():
        for name, tensor in dict(tensors).items():
            drawn = torch.randn(tensor.shape, generator=noise)
            if name.endswith("A_log") or name.endswith("dt_bias"):
                drawn = torch.rand(tensor.shape, generator=noise) * 5 - 3
            elif name.endswith("bias"):
                drawn *= 0.3
            elif tensor.dim() == 1:
                drawn = drawn * 0.3 + (0 if less_one and "linear_attn.norm" not in name else 1)
            elif "conv" in name and tensor.dim() == 3:
                drawn *= 0.7
            elif "embed_tokens" in name:
                drawn *= 1.6 / math.sqrt(tensor.shape[1]) if model_type.startswith("gemma3") or model.config.tie_word_embeddings else 0.8
            else:
                louder = 2 if "lm_head" in name or "gate.weight" in name or "expert_gate" in name else 1.3 if "q_proj" in name or "k_proj" in name else 1
                drawn *= louder / math.sqrt(tensor.shape[-1])
            tensor.copy_(drawn)


def saved(draw, model_type, number, folder):
    """A model as transformers saves it."""
    config = transformers.AutoConfig.for_model(model_type, **shape_of(draw, model_type))
    config._attn_implementation = config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomise(model, model_type, number)
    model = model.to(draw.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    how = {"max_shard_size": draw.choice(["8KB", "100KB", "5GB"])}
    if hasattr(config, "num_experts") and is_likely(draw, 0.4):
        how["save_original_format"] = False
    model.save_pretrained(folder, **how)


def dumped(dump, model, tokens, rows, folder):
    (folder / "tokens").write_bytes(struct.pack(f"<{len(tokens)}i", *tokens))
    done = subprocess.run([dump, model, folder / "tokens", str(rows), folder / "out"], capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{model}: ended with {done.returncode}: {done.stderr}")
    if done.returncode == 1:
        return None, done.stderr.strip()
    return torch.frombuffer(bytearray((folder / "out").read_bytes()), dtype=torch.float32).view(len(tokens), -1), ""


def expected_logits(model, tokens):
    """transformers' logits, and the smallest distance of a chosen expert from the next one, if there are experts."""
    reference = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager",
                                                                  experts_implementation="eager").eval()
    gaps = []

    def watch(router, inputs, _):
        logits = inputs[0].reshape(-1, inputs[0].shape[-1]).double() @ router.weight.double().T
        ordered = logits.sort(-1, descending=True).values
        if router.top_k < ordered.shape[-1]:
            gaps.append((ordered[:, router.top_k - 1] - ordered[:, router.top_k]).min().item())

    for module in reference.modules():
        if type(module).__name__.endswith("TopKRouter"):
            module.register_forward_hook(watch)
    with torch.no_grad():
        return reference(input_ids=torch.tensor([tokens])).logits[0].float(), min(gaps, default=None)


def verdict(dump, model_type, number, folder):
    draw = random.Random(f"{model_type} {number}")
    saved(draw, model_type, number, folder / "model")
    vocabulary = transformers.AutoConfig.from_pretrained(folder / "model").vocab_size
    tokens = [draw.randrange(vocabulary) for _ in range(NUM_TOKENS)]
    found, message = dumped(dump, folder / "model", tokens, draw.choice([7, 16, 24, 64, 240]), folder)
    if found is None:
        return "refused", message
    if not torch.equal(found, dumped(dump, folder / "model", tokens, 1, folder)[0]):
        return "bits", "passes of other sizes give other bits"
    expected, gap = expected_logits(folder / "model", tokens)
    mean = (found.log_softmax(-1) - expected.log_softmax(-1)).abs().mean().item()
    tie = "" if gap is None else f", closest experts {gap:.1e} apart"
    return ("ok" if mean <= BOUND else "wrong"), f"{mean:.1e}{tie}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10, help="models of each type")
    parser.add_argument("--type", action="append", choices=TYPES, dest="types")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    counts = {}
    for number in range(arguments.first, arguments.first + arguments.count):
        for model_type in arguments.types or TYPES:
            with tempfile.TemporaryDirectory() as folder:
                result, text = verdict(arguments.dump, model_type, number, Path(folder))
            counts[result] = counts.get(result, 0) + 1
            print(f"{model_type} {number}: {result}: {text}", flush=True)
    print(counts)
    return 1 if counts.get("wrong") or counts.get("bits") else 0


if __name__ == "__main__":
    sys.exit(main())
