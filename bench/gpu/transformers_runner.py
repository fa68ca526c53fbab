"""Plain and assisted generation of transformers, greedily, with the weights of two BF16 GGUF files: figures.py compares it with Paceline.
Needs torch and transformers (tried with 2.15.0 and 5.23.0, on a CPU); prints one line of JSON. Files are those of
tools/make_synthetic_model.py: family llama, without RoPE scaling, one token for each byte of the prompt."""
import argparse
import importlib.util
import json
import statistics
import struct
import sys
import time
from pathlib import Path

import numpy as np

try:
    import torch
    import transformers
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError as missing:
    sys.exit(f"this python has no {missing.name}")

TOOL = Path(__file__).resolve().parents[2] / "tools/make_synthetic_model.py"
spec = importlib.util.spec_from_file_location("make_synthetic_model", TOOL)
formats = importlib.util.module_from_spec(spec)
sys.modules["make_synthetic_model"] = formats
spec.loader.exec_module(formats)

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


class Reader:
    """The content of a GGUF file: the numbers and single texts of its metadata, and the places of its tensors."""

    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        self.path = path
        self.file = open(path, "rb")
        _, _, num_tensors, num_keys = self.take("IIQQ")
        self.keys = {}
        for _ in range(num_keys):
            key = self.text()
            self.keys[key] = self.value(self.take("I")[0])
        self.tensors = {}
        for _ in range(num_tensors):
            name = self.text()
            shape = self.take(f"{self.take('I')[0]}Q")
            kind, at = self.take("IQ")
            self.tensors[name] = (shape, kind, at)
        self.data = formats.padded(self.file.tell())

    def take(self, layout):
        return struct.unpack("<" + layout, self.file.read(struct.calcsize("<" + layout)))

    def text(self):
        return self.file.read(self.take("Q")[0]).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            of, count = self.take("IQ")
            return [self.value(of) for _ in range(count)]
        return self.take(self.SCALARS[kind])[0]

    def tensor(self, name):
        shape, kind, at = self.tensors[name]
        width = {0: "<f4", 30: "<u2"}[kind]
        raw = np.fromfile(self.path, dtype=width, count=int(np.prod(shape)), offset=self.data + at).reshape(shape[::-1])
        return torch.from_numpy(raw) if kind == 0 else torch.from_numpy(raw.view(np.int16)).view(torch.bfloat16)


def model_of(path, device):
    file = Reader(path)

    def key(name):
        return file.keys["llama." + name]

    config = LlamaConfig(vocab_size=len(file.keys["tokenizer.ggml.tokens"]), hidden_size=key("embedding_length"),
                         intermediate_size=key("feed_forward_length"), num_hidden_layers=key("block_count"),
                         num_attention_heads=key("attention.head_count"), num_key_value_heads=key("attention.head_count_kv"),
                         head_dim=key("attention.key_length"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
                         rope_theta=key("rope.freq_base"), max_position_embeddings=key("context_length"),
                         tie_word_embeddings="output.weight" not in file.tensors, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.to_empty(device=device)
    with torch.device(device):
        model.model.rotary_emb = type(model.model.rotary_emb)(config=config)  # angles, which are no weights
    model.tie_weights()
    there = model.state_dict()
    for name in file.tensors:
        parts = name.removesuffix(".weight").split(".")
        to = NAMES[parts[-1]] if parts[0] != "blk" else f"model.layers.{parts[1]}.{NAMES[parts[2]]}"
        value = file.tensor(name)
        if parts[-1] in ("attn_q", "attn_k"):
            # In GGUF the two values that are rotated together are adjacent, in transformers half a head apart.
            size, columns = config.head_dim, value.shape[1]
            value = value.reshape(-1, size // 2, 2, columns).transpose(1, 2).reshape(-1, columns)
        there[to + ".weight"].copy_(value)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--assistant", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto", help="auto: the GPU if there is one")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--draft-length", type=int, default=4)
    args = parser.parse_args()
    if args.device == "auto":
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    target, assistant = model_of(args.model, args.device), model_of(args.assistant, args.device)
    assistant.generation_config.num_assistant_tokens = args.draft_length
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    assistant.generation_config.assistant_confidence_threshold = 0.0
    prompts = [list(json.loads(line)["prompt"].encode()) for line in args.prompts.read_text().splitlines()]

    def rate(tokens, **more):
        prompt = torch.tensor([tokens], device=args.device)

        def generated(count):
            if args.device == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
            out = target.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=count, **more)
            if args.device == "cuda":
                torch.cuda.synchronize()
            return out[0, prompt.shape[1]:].tolist(), time.perf_counter() - began

        generated(args.tokens)  # warms up
        _, first = generated(1)  # Paceline's figure also counts from the first token on
        out, whole = generated(args.tokens)
        return out, (len(out) - 1) / (whole - first)

    with torch.inference_mode():
        plain = [rate(p) for p in prompts]
        assisted = [rate(p, assistant_model=assistant) for p in prompts]
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "device": args.device,
                      "plain": statistics.median(r for _, r in plain), "assisted": statistics.median(r for _, r in assisted),
                      "tokens": [out for out, _ in plain], "same": sum(a[0] == b[0] for a, b in zip(plain, assisted))}))


if __name__ == "__main__":
    main()
