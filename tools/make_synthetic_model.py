#!/usr/bin/env python3
"""Writes a GGUF file of a known model's shape with random weights, to measure speed without the real weights.

  make_synthetic_model.py 8b.gguf --shape 8b --type bf16          Llama 3 8B, 16 GB, written in pieces of a few megabytes
  make_synthetic_model.py 8b.gguf --shape 8b --type q4_k          the head in Q6_K, as real files have it
  make_synthetic_model.py small.gguf --shape 1b --type bf16 --layers 2
  make_synthetic_model.py lfm2.gguf --shape lfm2-1.2b --type q4_k            short convolutions beside attention
  make_synthetic_model.py qwen35.gguf --shape qwen35-0.8b --type q4_k        gated delta rules, and a module for multi-token prediction
  make_synthetic_model.py moe.gguf --shape 30b-a3b --type q4_k --layers 8   Qwen3-30B-A3B, a mixture of experts

Every tensor's noise depends on the seed, its name and its type alone, so a file of fewer --layers holds the first ones of
the whole. With --loud N the layers from number N on add so little that the first N alone choose the same token more often than
not: with `--layers N` they are a drafter for it. Activations stay near 1 in all layers. Rows that are not whole blocks of Q4_K
or Q6_K become Q4_0 or Q8_0. The vocabulary has the bytes, made-up words and an end; texts become tokens byte by byte. Needs numpy alone.
"""

import argparse
import math
import struct
import sys
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ALIGNMENT = 32
PIECE_BYTES = 8 << 20


@dataclass(frozen=True)
class Shape:
    family: str  # GGUF's architecture
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    theta: float
    tied: bool  # the embedding is the head too
    biased: bool  # queries, keys and values
    tokenizer: str
    experts: int = 0  # of each layer; 0: no mixture
    used_experts: int = 0  # of a token
    expert_ffn: int = 0
    attention_layers: tuple = ()  # the others have a short convolution; empty: all have attention
    taps: int = 0  # of a convolution
    key_heads: int = 0  # of delta rules; 0: there are none, and a convolution stands alone
    value_heads: int = 0
    delta_size: int = 0  # values of a key and of a value
    rotated: int = 0  # values of a head of attention; 0: all
    modules: int = 0  # for multi-token prediction

    def convolves(self, layer):
        return self.taps > 0 and layer not in self.attention_layers

    @property
    def gated(self):
        return self.key_heads > 0


SHAPES = {
    "8b": Shape("llama", 32, 4096, 14336, 32, 8, 128, 128256, 5e5, False, False, "llama-bpe"),  # Llama 3 8B
    "1b": Shape("llama", 16, 2048, 8192, 32, 8, 64, 128256, 5e5, True, False, "llama-bpe"),  # Llama 3.2 1B
    "0.5b": Shape("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 1e6, True, True, "qwen2"),  # Qwen2.5 0.5B
    "30b-a3b": Shape("qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, 1e6, False, False, "qwen2", 128, 8, 768),  # Qwen3 30B-A3B
    "lfm2-1.2b": Shape("lfm2", 16, 2048, 8192, 32, 8, 64, 65536, 1e6, True, False, "lfm2", attention_layers=(2, 5, 8, 10, 12, 14), taps=3),
    "qwen35-0.8b": Shape("qwen35", 24, 1024, 3584, 8, 2, 256, 248320, 1e7, True, False, "qwen35", attention_layers=tuple(range(3, 24, 4)), taps=4,
                         key_heads=16, value_heads=16, delta_size=128, rotated=64, modules=1),
    "qwen35-2b": Shape("qwen35", 24, 2048, 6144, 8, 2, 256, 248320, 1e7, True, False, "qwen35", attention_layers=tuple(range(3, 24, 4)), taps=4,
                       key_heads=16, value_heads=16, delta_size=128, rotated=64, modules=1),
    "tiny": Shape("llama", 3, 256, 512, 4, 2, 64, 512, 1e4, False, False, "llama-bpe"),
    "tiny-lfm2": Shape("lfm2", 4, 256, 512, 4, 2, 64, 512, 1e4, True, False, "lfm2", attention_layers=(1, 3), taps=3),
    "tiny-qwen35": Shape("qwen35", 4, 256, 512, 4, 2, 64, 512, 1e4, True, False, "qwen35", attention_layers=(3,), taps=4, key_heads=2,
                         value_heads=4, delta_size=32, rotated=16, modules=1),
    "tiny-moe": Shape("qwen3moe", 3, 256, 512, 4, 2, 64, 512, 1e4, False, False, "llama-bpe", 8, 2, 256),
}


@dataclass(frozen=True)
class Format:
    number: int  # GGML's
    values: int  # of a block
    bytes: int
    file_type: int  # general.file_type of a file that is mostly of it


FORMATS = {
    "f32": Format(0, 1, 4, 0),
    "bf16": Format(30, 1, 2, 32),
    "q4_0": Format(2, 32, 18, 2),
    "q8_0": Format(8, 32, 34, 7),
    "q4_k": Format(12, 256, 144, 14),
    "q6_k": Format(14, 256, 210, 18),
}
# If rows are not whole blocks.
COARSER = {"q4_k": "q4_0", "q6_k": "q8_0"}


def noise(random, num_bytes):
    words = random.integers(0, 2**64 - 1, size=(num_bytes + 7) // 8, dtype=np.uint64, endpoint=True)
    return words.view(np.uint8)[:num_bytes]


def halves(value):
    """A float16 as two bytes."""
    return np.frombuffer(struct.pack("<e", value), dtype=np.uint8)


def blocks_of(name, random, count, deviation):
    """`count` blocks of noise whose values have mean 0 and about the standard deviation asked for."""
    if name == "f32":
        return random.normal(0, deviation, count).astype("<f4").view(np.uint8)
    if name == "bf16":
        # Sign and fraction are noise, the exponent is one of two: a deviation of 2.415 times the smaller power of two.
        exponent = 127 + round(math.log2(deviation / 2.415))
        bits = noise(random, 2 * count).view("<u2")
        return ((bits & 0x807F) | (((bits >> 7) & 1) + exponent << 7).astype("<u2")).view(np.uint8)
    out = noise(random, count * FORMATS[name].bytes).reshape(count, -1)
    # The deviation of a value in units of the block's scale, all codes being equally likely; of Q4_K the minimum's scale is
    # what makes the mean 0.
    if name == "q4_0":
        out[0::2, 0:2], out[1::2, 0:2] = halves(deviation / 4.6), halves(-deviation / 4.6)  # codes are -8 to 7
    elif name == "q8_0":
        out[:, 0:2] = halves(deviation / 73.9)
    elif name == "q4_k":
        out[:, 0:2], out[:, 2:4] = halves(deviation / 258), halves(7.5 * deviation / 258)
    elif name == "q6_k":
        out[:, 208:210] = halves(deviation / 1367)
    return out


def format_for(wanted, columns):
    """The format of a matrix with rows of so many values."""
    return wanted if columns % FORMATS[wanted].values == 0 else COARSER[wanted]


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple  # values of a row first
    format: str
    deviation: float  # 0: all ones; negative: all that value

    @property
    def num_bytes(self):
        format = FORMATS[self.format]
        return math.prod(self.shape) // format.values * format.bytes

    def pieces(self, seed):
        if self.deviation <= 0:
            yield np.full(self.shape, self.deviation or 1.0, dtype="<f4").view(np.uint8)
            return
        random = np.random.Generator(np.random.SFC64([seed, zlib.crc32(f"{self.name} {self.format}".encode())]))
        format = FORMATS[self.format]
        left = math.prod(self.shape) // format.values
        while left > 0:
            count = min(left, PIECE_BYTES // format.bytes)
            yield blocks_of(self.format, random, count, self.deviation)
            left -= count


def tensors_of(shape, wanted, loud, quiet):
    def matrix(name, columns, rows, format=wanted, gain=1.0):
        return Tensor(name, (columns, rows), format_for(format, columns), gain / math.sqrt(columns))

    def experts(name, columns, rows, gain=1.0):
        return Tensor(name, (columns, rows, shape.experts), format_for(wanted, columns), gain / math.sqrt(columns))

    def vector(name, size, deviation=0.0):
        return Tensor(name, (size,), "f32", deviation)

    def attention_of(block, gain):
        made = []
        for part, rows in (("q", 2 * attention if shape.gated else attention), ("k", keys), ("v", keys)):
            made.append(matrix(f"{block}attn_{part}.weight", shape.hidden, rows))
            if shape.biased:
                made.append(vector(f"{block}attn_{part}.bias", rows, 0.1))
        made.append(matrix(block + "attn_output.weight", attention, shape.hidden, gain=gain))
        if shape.family.startswith(("qwen3", "lfm2")):
            made += [vector(f"{block}attn_{part}_norm.weight", shape.head_size) for part in ("q", "k")]
        return made

    def feed_forward_of(block, gain):
        return [matrix(block + "ffn_gate.weight", shape.hidden, shape.ffn), matrix(block + "ffn_up.weight", shape.hidden, shape.ffn),
                matrix(block + "ffn_down.weight", shape.ffn, shape.hidden, gain=gain)]

    head = "q6_k" if wanted == "q4_k" else wanted
    attention, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    out = [matrix("token_embd.weight", shape.hidden, shape.vocabulary, head if shape.tied else wanted)]
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        gain = 1.0 if layer < loud else quiet  # of what the layer adds
        out.append(vector(block + "attn_norm.weight", shape.hidden))
        if shape.gated and shape.convolves(layer):
            values = shape.value_heads * shape.delta_size
            channels = 2 * shape.key_heads * shape.delta_size + values
            out += [matrix(block + "attn_qkv.weight", shape.hidden, channels), matrix(block + "attn_gate.weight", shape.hidden, values)]
            out += [matrix(f"{block}ssm_{part}.weight", shape.hidden, shape.value_heads) for part in ("beta", "alpha")]
            out.append(Tensor(block + "ssm_conv1d.weight", (shape.taps, channels), "f32", 1 / math.sqrt(shape.taps)))
            # Between forgetting everything and nothing: exp(-softplus(..)) for a of about -1.
            out += [vector(block + "ssm_dt.bias", shape.value_heads, 0.5), Tensor(block + "ssm_a", (shape.value_heads,), "f32", -1.0)]
            out += [vector(block + "ssm_norm.weight", shape.delta_size), matrix(block + "ssm_out.weight", values, shape.hidden, gain=gain)]
        elif shape.convolves(layer):
            out.append(matrix(block + "shortconv.in_proj.weight", shape.hidden, 3 * shape.hidden))
            out.append(Tensor(block + "shortconv.conv.weight", (shape.taps, shape.hidden), "f32", 1 / math.sqrt(shape.taps)))
            out.append(matrix(block + "shortconv.out_proj.weight", shape.hidden, shape.hidden, gain=gain))
        else:
            out += attention_of(block, gain)
        out.append(vector(block + ("post_attention_norm.weight" if shape.gated else "ffn_norm.weight"), shape.hidden))
        if shape.experts:
            # The weights of a token's experts sum to 1, so what they add together is smaller by the root of their number.
            inner, all_gain = shape.expert_ffn, gain * math.sqrt(shape.used_experts)
            out.append(Tensor(block + "ffn_gate_inp.weight", (shape.hidden, shape.experts), "f32", 1 / math.sqrt(shape.hidden)))
            out.append(experts(block + "ffn_gate_exps.weight", shape.hidden, inner))
            out.append(experts(block + "ffn_up_exps.weight", shape.hidden, inner))
            out.append(experts(block + "ffn_down_exps.weight", inner, shape.hidden, all_gain))
            continue
        out += feed_forward_of(block, gain)
    for module in range(shape.layers, shape.layers + shape.modules):
        block = f"blk.{module}."
        out += attention_of(block, 1.0) + feed_forward_of(block, 1.0) + [matrix(block + "nextn.eh_proj.weight", 2 * shape.hidden, shape.hidden)]
        out += [vector(f"{block}{norm}.weight", shape.hidden)
                for norm in ("attn_norm", "post_attention_norm", "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")]
    out.append(vector("token_embd_norm.weight" if shape.family == "lfm2" else "output_norm.weight", shape.hidden))
    if not shape.tied:
        out.append(matrix("output.weight", shape.hidden, shape.vocabulary, head))
    return out


# ---- the file


def byte_spellings():
    """How byte-level vocabularies spell the 256 bytes. Visible characters stand for themselves; the others become the characters from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in seen]
    spelt = {b: chr(b) for b in seen} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [spelt[b] for b in range(256)]


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def entry(key, value):
    """A key of GGUF's metadata: an int is a uint32, a list one of texts or of int32."""
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if value and isinstance(value[0], int):
        return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + np.array(value, "<i4").tobytes()
    return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))


def metadata(name, shape, wanted):
    words = byte_spellings()
    words += [f"w{i}" for i in range(len(words), shape.vocabulary - 1)] + ["<|end_of_text|>"]
    normal, control = 1, 3
    family = shape.family
    mixture = {
        f"{family}.expert_count": shape.experts,
        f"{family}.expert_used_count": shape.used_experts,
        f"{family}.expert_feed_forward_length": shape.expert_ffn,
    }
    rules = {
        f"{family}.ssm.conv_kernel": shape.taps,
        f"{family}.ssm.group_count": shape.key_heads,
        f"{family}.ssm.time_step_rank": shape.value_heads,
        f"{family}.ssm.state_size": shape.delta_size,
        f"{family}.ssm.inner_size": shape.value_heads * shape.delta_size,
        f"{family}.rope.dimension_count": shape.rotated,
        f"{family}.rope.dimension_sections": [shape.rotated // 6, shape.rotated // 6, shape.rotated // 2 - 2 * (shape.rotated // 6), 0],
        f"{family}.full_attention_interval": 4,
        f"{family}.nextn_predict_layers": shape.modules,
    }
    kv_heads, convolutions = shape.kv_heads, {}
    if shape.taps and not shape.gated:
        kv_heads = [0 if shape.convolves(layer) else shape.kv_heads for layer in range(shape.layers)]
        convolutions = {f"{family}.shortconv.l_cache": shape.taps}
    return (mixture if shape.experts else {}) | (rules if shape.gated else {}) | convolutions | {
        "general.architecture": family,
        "general.name": name,
        "general.file_type": FORMATS[wanted].file_type,
        f"{family}.context_length": 8192,
        f"{family}.embedding_length": shape.hidden,
        f"{family}.block_count": shape.layers + shape.modules,
        f"{family}.feed_forward_length": shape.ffn,
        f"{family}.attention.head_count": shape.heads,
        f"{family}.attention.head_count_kv": kv_heads,
        f"{family}.attention.key_length": shape.head_size,
        f"{family}.attention.value_length": shape.head_size,
        f"{family}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{family}.rope.freq_base": shape.theta,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": shape.tokenizer,
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [normal] * (len(words) - 1) + [control],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": len(words) - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def write(path, keys, tensors, seed):
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys))
    head += b"".join(entry(k, v) for k, v in keys.items())
    at = 0
    for tensor in tensors:
        head += text(tensor.name) + struct.pack("<I", len(tensor.shape)) + struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
        head += struct.pack("<IQ", FORMATS[tensor.format].number, at)
        at = padded(at + tensor.num_bytes)
    with open(path, "wb") as file:
        file.write(head.ljust(padded(len(head)), b"\0"))
        for tensor in tensors:
            for piece in tensor.pieces(seed):
                file.write(piece)
            file.write(b"\0" * (padded(tensor.num_bytes) - tensor.num_bytes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--type", choices=[f for f in FORMATS if f not in ("f32", "q6_k")], default="bf16")
    parser.add_argument("--layers", type=int, help="the first ones only")
    parser.add_argument("--loud", type=int, help="layers that add as much as the hidden state holds; the others add --quiet of it")
    parser.add_argument("--quiet", type=float, default=1 / 64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    shape = SHAPES[args.shape]
    layers = shape.layers if args.layers is None else args.layers
    if not 1 <= layers <= shape.layers:
        sys.exit(f"--layers must be 1 to {shape.layers}")
    loud = shape.layers if args.loud is None else args.loud
    tensors = tensors_of(replace(shape, layers=layers), args.type, loud, args.quiet)
    part = args.path.with_suffix(".part")
    write(part, metadata(f"{args.shape} of noise", replace(shape, layers=layers), args.type), tensors, args.seed)
    part.rename(args.path)
    print(f"{args.path}: {args.path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
