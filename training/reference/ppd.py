"""Parallel prompt decoding: prompt tokens (Chen et al. 2024), in the published PEFT adapter, with lists of tree nodes."""
import json
from pathlib import Path

from safetensors.torch import load_file, save_file

from training.reference import layouts
from training.reference.lookahead_rows import RowsHead, RowsShape

WEIGHTS, TREES = "adapter_model.safetensors", "sparse_trees.json"


def stored_name(_name):
    return "prompt_embeddings"


def save(head, directory, _target):
    directory, shape = Path(directory), head.shape
    directory.mkdir(parents=True, exist_ok=True)
    fields = {"peft_type": "PROMPT_TUNING", "task_type": "CAUSAL_LM", "base_model_name_or_path": "target",
              "num_virtual_tokens": shape.num_rows, "token_dim": shape.hidden_size,
              "num_special_tokens": shape.num_rows, "virtual_tokens_per_special_token": 1, "num_exits": 1,
              "use_custom_lm_head": False, "use_prefix_tuning": False, "vt_attention_type": "ensemble",
              "aggregation_type": "mean"}
    (directory / "adapter_config.json").write_text(json.dumps(fields, indent=1))
    tensors = {name: value.clone() for name, value in layouts.published(head, stored_name).items()}
    save_file(tensors, directory / WEIGHTS, {"format": "pt"})
    if shape.trees:
        lists = {str(state): [[list(path), 0.5, rows] for path, rows in nodes]
                 for state, nodes in enumerate(shape.trees, 1)}
        (directory / TREES).write_text(json.dumps(lists))


def load(directory, target):
    tensors = load_file(Path(directory) / WEIGHTS)
    lists = json.loads((Path(directory) / TREES).read_text()) if (Path(directory) / TREES).exists() else {}
    trees = tuple(tuple((tuple(path), rows) for path, _, rows in lists[str(state)])
                  for state in range(1, len(lists) + 1))
    shape = RowsShape(taps=(target.shape.num_hidden_layers,), vocab_size=target.shape.vocab_size,
                      hidden_size=target.shape.hidden_size, num_rows=len(tensors["prompt_embeddings"]), trees=trees)
    return layouts.fill(RowsHead(shape), tensors, stored_name).borrow(target)
