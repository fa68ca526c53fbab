"""MLP speculators (Wertheimer et al. 2024, section 3): each level has a network that reads the newest token and
the state that the level above left. Names of parameters are those of IBM's files without `speculator.`.
"""
import dataclasses
import math

import torch
from torch import nn

from training.reference import layouts
from training.reference.layers import rms_norm
from training.reference.path_drafting import PathConventions, PathDrafting

EPSILON = 1e-6  # of the published module
PARTS = ("emb", "proj", "head", "ln")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeculatorShape:
    taps: tuple           # the one behind the target's final norm
    vocab_size: int       # of the target
    hidden_size: int = 64  # of the target
    inner_size: int = 64   # of a state
    num_levels: int = 3
    scale_input: bool = False
    tie_weights: bool = False  # one network for all levels, but for the first projection
    stores_once: bool = False  # tied parameters are in the file under their first name only
    prefix: str = ""           # of names in the file

    @property
    def num_drafted(self):
        return self.vocab_size

    @property
    def embedding_scale(self):
        """The factor of an embedding that is added to a state. The weights of both are chosen so that sums keep their size."""
        state_weight = 0.5 ** (0.5 / self.num_levels)
        return math.sqrt((1 - state_weight ** 2) * self.inner_size / 2) / state_weight


class ScaleAndShift(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return rms_norm(x, self.weight, EPSILON) + self.bias


class MlpSpeculator(nn.Module):
    kind = "mlp_speculator"
    conventions = PathConventions()

    def __init__(self, shape):
        super().__init__()
        self.shape, self.max_levels, inner = shape, shape.num_levels, shape.inner_size
        own, shared = (1, shape.num_levels) if shape.tie_weights else (shape.num_levels, 1)
        self.emb = nn.ModuleList([nn.Embedding(shape.vocab_size, inner) for _ in range(own)] * shared)
        self.head = nn.ModuleList([nn.Linear(inner, shape.vocab_size, bias=False) for _ in range(own)] * shared)
        self.ln = nn.ModuleList([ScaleAndShift(inner) for _ in range(own)] * shared)
        later = [nn.Linear(inner, inner, bias=False) for _ in range(1 if shape.tie_weights else shape.num_levels - 1)]
        later = later * (shape.num_levels - 1) if shape.tie_weights else later
        self.proj = nn.ModuleList([nn.Linear(shape.hidden_size, inner, bias=False), *later])

    def borrow(self, _target):
        return self

    def target_ids(self, drafted):
        return drafted

    def states(self, features):
        if not self.shape.scale_input:
            return features
        return rms_norm(features, torch.ones(self.shape.hidden_size), EPSILON) / math.sqrt(2)

    @torch.no_grad()
    def behind(self, states, paths):
        """Logits [F, V] for states [F, H] and tokens [F, 1 + level]: the text's newest one, then the drafted ones."""
        for level, tokens in enumerate(paths.T):
            embedding = self.shape.embedding_scale * self.emb[level](tokens)
            states = nn.functional.gelu(self.ln[level](self.proj[level](states) + embedding))
        return self.head[level](states)

    def drafting(self, features, tokens):
        return PathDrafting(self, features, tokens)


def is_stored(shape, name):
    """Whether a parameter of this name is in the file."""
    level = int(name.split(".")[1])
    return not (shape.tie_weights and shape.stores_once) or level == 0 or (name.startswith("proj.") and level == 1)


def save(head, directory, _target):
    shape = head.shape
    tensors = {shape.prefix + name: value for name, value in head.state_dict().items() if is_stored(shape, name)}
    fields = {"model_type": "mlp_speculator", "architectures": ["MLPSpeculatorPreTrainedModel"],
              "n_predict": shape.num_levels, "emb_dim": shape.hidden_size, "vocab_size": shape.vocab_size,
              "inner_dim": shape.inner_size if shape.inner_size != shape.hidden_size else 0,
              "tie_weights": shape.tie_weights, "scale_input": shape.scale_input, "n_candidates": 4,
              "top_k_tokens_per_head": [4] * shape.num_levels, "torch_dtype": "float32"}
    layouts.write(directory, fields, tensors)


def load(directory, target):
    fields, tensors = layouts.read(directory)
    prefix = "speculator." if "speculator.emb.0.weight" in tensors else ""
    shape = SpeculatorShape(taps=(target.shape.num_hidden_layers,), vocab_size=fields["vocab_size"],
                            hidden_size=fields["emb_dim"], inner_size=fields["inner_dim"] or fields["emb_dim"],
                            num_levels=fields["n_predict"], scale_input=fields["scale_input"],
                            tie_weights=fields["tie_weights"], stores_once=prefix + "emb.1.weight" not in tensors,
                            prefix=prefix)

    def stored_name(name):
        part, level, rest = name.split(".")
        return prefix + (name if is_stored(shape, name) else f"{part}.{int(part == 'proj')}.{rest}")

    return layouts.fill(MlpSpeculator(shape), tensors, stored_name)
