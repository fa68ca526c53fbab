"""The matrix of head_parity.py: a target, a head, and how the daemon's drafter drafts."""
import dataclasses

from training.reference import dart, made_heads

# The published general tree (mc_sim_7b_63): in falling order of what its nodes gain.
GENERAL_TREE = (
    "0 0.0 1 0.1 2 0.0.0 1.0 0.2 3 0.3 4 0.4 2.0 0.5 0.0.1 5 0.6 6 0.7 0.1.0 1.1 7 0.8 0.0.2 3.0 0.9 8 9 1.0.0 "
    "0.2.0 1.2 0.0.3 4.0 2.1 0.0.4 0.0.5 0.0.0.0 0.1.1 0.0.6 0.3.0 5.0 1.3 0.0.7 0.0.8 0.0.9 6.0 0.4.0 1.4 7.0 "
    "0.1.2 2.0.0 3.1 2.2 8.0 0.5.0 1.5 1.0.1 0.2.1 9.0 0.6.0 0.0.0.1 1.6 0.7.0").split()
SMALL_TREE = "0 1 0.0 2 0.1 1.0 0.0.0 3 1.1 0.0.1 0.1.0 2.0 0.0.0.0 0.0.0.1".split()


@dataclasses.dataclass(frozen=True)
class Case:
    model_type: str
    head: str                  # of made_heads.KINDS
    tree: str = "dynamic"
    draft_length: int = 4      # levels
    tree_top_k: int = 4        # of dynamic trees
    max_tree_nodes: int = 16   # of trees
    tree_paths: tuple = ()     # of static trees; empty: the published general one
    with_auto: bool = False    # of chains
    says_tree: bool = True     # else the tree is the kind's own
    says_length: bool = True   # else the levels are those that the head gives
    is_own_module: bool = False  # the head is in the target's directory
    options: dict = dataclasses.field(default_factory=dict)  # further ones of the drafter

    @property
    def family(self):
        return made_heads.KINDS[self.head].family

    @property
    def kind(self):
        """The drafter's."""
        return "eagle2" if self.family == "eagle" and self.tree != "chain" else self.family

    @property
    def drafter_options(self):
        options = ({"draft_length": self.draft_length} if self.says_length else {}) | self.options
        if not self.says_tree:
            return options
        if self.tree == "dynamic":
            options["tree_top_k"] = self.tree_top_k
        if self.tree_paths:
            options["tree_paths"] = list(self.tree_paths)
        if self.tree != "chain":
            options["max_tree_nodes"] = self.max_tree_nodes
        return options | {"tree": self.tree}

    @property
    def threshold(self):
        """The confidence below which a chain is cut; 0: never."""
        return self.options.get("confidence_threshold", 0)

    def template(self, levels, max_nodes):
        """For a static tree: the paths that fit, as tuples of ranks."""
        paths = [tuple(map(int, path.split("."))) for path in self.tree_paths or GENERAL_TREE]
        return [path for path in paths if len(path) <= levels][:max_nodes]

    def full_size(self, levels):
        """Nodes of an uncut draft of so many levels."""
        if self.tree == "chain":
            return levels
        if self.tree == "static":
            return len(self.template(levels, max(self.max_tree_nodes, levels)))
        if self.tree == "dart":
            children = min(dart.CHILDREN, made_heads.KINDS[self.head].fields.get("draft_vocab_size", dart.CHILDREN))
            most = children + (levels - 1) * children * min(children, dart.EXPANDED)
            return min(max(self.max_tree_nodes, levels), most)
        return min(max(self.max_tree_nodes, levels), self.tree_top_k + (levels - 1) * self.tree_top_k ** 2)

    def reference_draft(self, drafting, base, levels, size):
        if self.threshold:
            return drafting.cut(drafting.chain(base, levels), base, self.threshold)
        if self.tree == "chain":
            return drafting.chain(base, size)
        if self.tree == "static":
            return drafting.fixed(base, self.template(levels, size))
        if self.tree == "dart":
            return drafting.scored(base, levels, size)
        return drafting.tree(base, self.tree_top_k, levels, size)


def static(model_type, head, draft_length=4, max_tree_nodes=64, **fields):
    return Case(model_type, head, "static", draft_length, max_tree_nodes=max_tree_nodes, **fields)


EAGLE_CASES = {
    "llama-eagle": Case("llama", "eagle", "chain", 4),
    "gemma3-eagle": Case("gemma3_text", "eagle", "chain", 3),
    "qwen2-eagle2": Case("qwen2", "eagle-bias"),
    "gemma3-eagle2": Case("gemma3_text", "eagle", draft_length=3, tree_top_k=3, max_tree_nodes=9),
    "qwen3-eagle2-two-layers": Case("qwen3", "eagle-two-layers"),
    "llama-reference": Case("llama", "reference", "chain", 5, with_auto=True),
    "qwen2-reference": Case("qwen2", "reference", draft_length=6, tree_top_k=8, max_tree_nodes=48),
    "qwen3-reference-full": Case("qwen3", "reference-full", tree_top_k=2, max_tree_nodes=8),
    "gemma3-reference-wide": Case("gemma3_text", "reference-wide"),
    "qwen2-reference-bias": Case("qwen2", "reference-bias", "chain", 4),
    "llama-reference-taps": Case("llama", "reference-taps", tree_top_k=3, max_tree_nodes=12),
    "llama-speculators": Case("llama", "speculators"),
    "qwen2-speculators-3.1": Case("qwen2", "speculators-3.1", draft_length=2, tree_top_k=10, max_tree_nodes=30),
    "gemma3-speculators": Case("gemma3_text", "speculators-norm-before-fc", "chain", 4),
    "qwen3-speculators-two-layers": Case("qwen3", "speculators-two-layers"),
    "qwen3-speculators-window": Case("qwen3", "speculators-window"),
    "qwen3-deepspec": Case("qwen3", "deepspec"),
    "llama-reference-gguf": Case("llama", "reference-gguf", tree_top_k=3, max_tree_nodes=12),
    "gemma3-reference-gguf-normed": Case("gemma3_text", "reference-gguf-normed", "chain", 4),
}
MASK_CASES = {
    "llama-peagle": Case("llama", "peagle", "chain", 5, with_auto=True),
    "qwen3-peagle": Case("qwen3", "peagle", draft_length=6, tree_top_k=3, max_tree_nodes=12),
    "qwen2-peagle-flat": Case("qwen2", "peagle-flat", "chain", 7),
    "gemma3-peagle-normed": Case("gemma3_text", "peagle-normed", tree_top_k=3, max_tree_nodes=10),
    "llama-peagle-window": Case("llama", "peagle-window", "chain", 6),
    "llama-dart": Case("llama", "dart", "dart", 7, max_tree_nodes=60, says_tree=False),
    "qwen3-dart": Case("qwen3", "dart", "dart", 4, max_tree_nodes=16),
    "qwen2-dart-chain": Case("qwen2", "dart", "chain", 5, with_auto=True),
    "llama-dart-few": Case("llama", "dart-few", "dart", 6, max_tree_nodes=40, says_length=False),
    "gemma3-dart-full": Case("gemma3_text", "dart-full", "dart", 9, max_tree_nodes=30),
}
PARALLEL_CASES = {
    "llama-medusa": static("llama", "medusa", says_tree=False),
    "qwen2-medusa-chain": Case("qwen2", "medusa", "chain", 5, with_auto=True),
    "qwen3-medusa-two-layers": static("qwen3", "medusa-two-layers", max_tree_nodes=20),
    "gemma3-medusa-two-layers-short": static("gemma3_text", "medusa-two-layers", 2, says_tree=False),
    "llama-medusa-vllm": static("llama", "medusa-vllm", tree_paths=tuple(SMALL_TREE)),
    "qwen2-medusa-vllm-map": static("qwen2", "medusa-vllm-map", max_tree_nodes=40),
    "qwen3-medusa-vllm-map-chain": Case("qwen3", "medusa-vllm-map", "chain", 4),
    "gemma3-medusa-vllm-one-head": static("gemma3_text", "medusa-vllm-one-head", 6, 30),
    "llama-medusa-vllm-one-head-map": Case("llama", "medusa-vllm-one-head-map", tree_top_k=3),
    "qwen2-medusa-vllm-borrowed": static("qwen2", "medusa-vllm-borrowed", 3, tree_paths=tuple(SMALL_TREE)),
    "llama-medusa-vllm-scaled": Case("llama", "medusa-vllm-scaled"),
    "llama-blockwise": Case("llama", "blockwise", "chain", 4, says_tree=False, with_auto=True),
    "gemma3-blockwise-own-head": Case("gemma3_text", "blockwise-own-head", "chain", 6, says_length=False),
    "qwen3-blockwise-tree": static("qwen3", "blockwise", tree_paths=tuple(SMALL_TREE)),
}
CHAINED_CASES = {
    "llama-hydra": static("llama", "hydra", says_tree=False),
    "qwen2-hydra-chain": Case("qwen2", "hydra", "chain", 4, with_auto=True),
    "qwen2-hydra-offset": Case("qwen2", "hydra-offset", draft_length=3),
    "qwen3-hydra-two-layers": Case("qwen3", "hydra-two-layers", draft_length=3),
    "gemma3-hydra-two-layers": static("gemma3_text", "hydra-two-layers", 5, 55),
    "llama-hydra-prefix": static("llama", "hydra-prefix", says_tree=False),
    "llama-hydra-prefix-chain": Case("llama", "hydra-prefix", "chain", 3, with_auto=True),
    "llama-hydra-prefix-three-layers": Case("llama", "hydra-prefix-three-layers", tree_top_k=3, max_tree_nodes=20),
    "llama-mlp": Case("llama", "mlp", "chain", 3, says_tree=False),
    "qwen2-mlp-scaled": Case("qwen2", "mlp-scaled", "chain", 5, with_auto=True),
    "qwen3-mlp-scaled-tree": Case("qwen3", "mlp-scaled", draft_length=3, max_tree_nodes=12),
    "gemma3-mlp-tied": Case("gemma3_text", "mlp-tied", "chain", 5),
    "llama-mlp-tied-tree": Case("llama", "mlp-tied", draft_length=5, tree_top_k=2, max_tree_nodes=10),
    "qwen2-mlp-tied-scaled": Case("qwen2", "mlp-tied-scaled", "chain", 4),
}
MTP_CASES = {
    "qwen2-mtp-mimo": Case("qwen2", "mtp-mimo", "chain", 4, says_tree=False, with_auto=True),
    "qwen2-mtp-mimo-tree": Case("qwen2", "mtp-mimo", tree_top_k=3, max_tree_nodes=12),
    "qwen2-mtp-mimo-order": Case("qwen2", "mtp-mimo-embedding-first", "chain", 3,
                                 options={"mtp_order": "embedding_first"}),
    "qwen3-mtp-speculators": Case("qwen3", "mtp-speculators", "chain", 3),
    "llama-mtp-speculators-order": Case("llama", "mtp-speculators-hidden-first",
                                        options={"mtp_order": "hidden_first"}),
    "qwen3-mtp-speculators-next": Case("qwen3", "mtp-speculators-next", "chain", 4),
    "qwen3-mtp-next": Case("qwen3", "mtp-next", "chain", 4),
    "qwen3-mtp-next-tree": Case("qwen3", "mtp-next"),
    "qwen35-mtp": Case("qwen3_5_text", "mtp-qwen35", "chain", 4, is_own_module=True, with_auto=True),
    "qwen35-mtp-beside": Case("qwen3_5_text", "mtp-qwen35", tree_top_k=3, max_tree_nodes=12),
    "qwen35-mtp-gguf": Case("qwen3_5_text", "mtp-gguf", "chain", 4),
    "qwen35moe-mtp": Case("qwen3_5_moe_text", "mtp-experts", "chain", 4, is_own_module=True, with_auto=True),
    "qwen35moe-mtp-packed": Case("qwen3_5_moe_text", "mtp-experts-packed", tree_top_k=3, max_tree_nodes=12, is_own_module=True),
    "qwen35moe-mtp-gguf": Case("qwen3_5_moe_text", "mtp-gguf-experts", "chain", 4),
    "qwen35moe-mtp-gguf-packed": Case("qwen3_5_moe_text", "mtp-gguf-experts-packed", tree_top_k=3, max_tree_nodes=12),
    "qwen3next-mtp": Case("qwen3_next", "mtp-experts", "chain", 3, is_own_module=True),
    "qwen3next-mtp-beside": Case("qwen3_next", "mtp-next-experts", "chain", 4),
    "qwen3-mtp-speculators-next-experts": Case("qwen3", "mtp-speculators-next-experts", "chain", 4),
    "llama-mtp-deepseek": Case("llama", "mtp-deepseek", "chain", 4),
    "llama-mtp-deepseek-tree": Case("llama", "mtp-deepseek", draft_length=3, tree_top_k=3, max_tree_nodes=9),
}
BLOCK_CASES = {
    "qwen3-dflash": Case("qwen3", "dflash", "chain", 5, says_tree=False, with_auto=True),
    "llama-dflash-usual-taps": Case("llama", "dflash-usual-taps", "chain", 7, says_length=False),
    "llama-dflash-tree": Case("llama", "dflash", draft_length=3, tree_top_k=3, max_tree_nodes=12),
    "qwen2-dflash-window": Case("qwen2", "dflash-window", "chain", 5),
    "qwen3-dflash-window-whole": Case("qwen3", "dflash-window-whole", "chain", 5),
    "gemma3-dflash-fused": Case("gemma3_text", "dflash-fused", "chain", 5),
    "qwen3-dflash-speculators": Case("qwen3", "dflash-speculators", "chain", 5),
    "llama-dflash-speculators-anchor": static("llama", "dflash-speculators-anchor", 6, 20, tree_paths=tuple(GENERAL_TREE)),
    "gemma3-dflash-deepspec": Case("gemma3_text", "dflash-deepspec", "chain", 5),
    "qwen3-dflash-gguf": Case("qwen3", "dflash-gguf", "chain", 5, with_auto=True),
    "gemma3-dflash-gguf-window": Case("gemma3_text", "dflash-gguf-window", "chain", 5, says_length=False),
    "llama-dflash-gguf-tree": Case("llama", "dflash-gguf", draft_length=3, tree_top_k=3, max_tree_nodes=12),
    "qwen3-dspark": Case("qwen3", "dspark", "chain", 5, says_tree=False, with_auto=True),
    "gemma3-dspark": Case("gemma3_text", "dspark", "chain", 6, says_length=False),
    "llama-dspark-same": Case("llama", "dspark-same", "chain", 5, options={"alignment": "same"}),
    "llama-dspark-tree": Case("llama", "dspark", tree_top_k=3, max_tree_nodes=14),
    "qwen3-dspark-deepspec": Case("qwen3", "dspark-deepspec", "chain", 6),
    "qwen2-dspark-gated": Case("qwen2", "dspark-deepspec-gated", "chain", 5),
    "qwen2-dspark-gated-tree": static("qwen2", "dspark-deepspec-gated", 4, tree_paths=tuple(SMALL_TREE)),
    "qwen3-dspark-rnn": Case("qwen3", "dspark-deepspec-rnn", "chain", 6),
    "gemma3-dspark-rnn-tree": Case("gemma3_text", "dspark-deepspec-rnn", draft_length=5, tree_top_k=3, max_tree_nodes=18),
    "llama-dspark-speculators": Case("llama", "dspark-speculators", "chain", 5),
    "qwen3-dspark-confidence": Case("qwen3", "dspark-confidence", "chain", 5, options={"confidence_threshold": 0.25}),
    "qwen3-dspark-rnn-confidence": Case("qwen3", "dspark-deepspec-rnn", "chain", 6,
                                        options={"confidence_threshold": 0.25}),
    "qwen3-dspark-gguf": Case("qwen3", "dspark-gguf", "chain", 6, says_length=False),
    "gemma3-dspark-gguf-confidence": Case("gemma3_text", "dspark-gguf", "chain", 6,
                                          options={"confidence_threshold": 0.25}),
    "llama-dspark-gguf-map": Case("llama", "dspark-gguf-map", tree_top_k=3, max_tree_nodes=14),
    "qwen3-dspark-no-markov": Case("qwen3", "dspark-no-markov", "chain", 6, options={"confidence_threshold": 0.25}),
}
ROWS_CASES = {
    "llama-pass": Case("llama", "pass", "chain", 4, says_tree=False, with_auto=True),
    "qwen2-pass-six": Case("qwen2", "pass-six", "chain", 6, says_tree=False, says_length=False),
    "gemma3-pass-short": Case("gemma3_text", "pass-six", "chain", 3, says_tree=False),
    "llama-ppd": static("llama", "ppd", says_tree=False),
    "qwen2-ppd-lists": static("qwen2", "ppd-lists", says_tree=False),
    "qwen3-ppd-chain": Case("qwen3", "ppd-five", "chain", 5, with_auto=True),
    "gemma3-ppd": static("gemma3_text", "ppd", 3, tree_top_k=3, says_tree=False, options={"tree_top_k": 3}),
    "llama-ppd-tree": static("llama", "ppd-five", 4, tree_paths=tuple(SMALL_TREE)),
}
GROUPS = {"eagle": EAGLE_CASES, "mask": MASK_CASES, "parallel": PARALLEL_CASES, "chained": CHAINED_CASES, "mtp": MTP_CASES,
          "block": BLOCK_CASES, "rows": ROWS_CASES}
GROUPS_WITHOUT_POOL = {"parallel", "rows"}  # their heads keep no keys and values of their own
CASES = {name: case for group in GROUPS.values() for name, case in group.items()}
