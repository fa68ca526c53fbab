#include "config/drafter_option_table.hpp"

namespace paceline::config {

namespace {

/// Options of drafters with a model: tree shapes, vocabularies, layers.
void declare_drafting_models(group_builder<drafter_options>& g) {
  using d = drafter_options;
  g.add(
      "tree", {"chain", "static", "dynamic", "optimal", "independent", "dart", "by_kind"},
      [](d & o) -> auto& { return o.tree; },
      "Shape of a draft. Only for drafters with a model or a head, except `cascade`. `by_kind` means "
      "`dynamic` for `eagle2` and `eagle3`, `static` for `medusa` and `hydra`, `dart` for `dart`, and "
      "`chain` for the others; in beam searches, `model`, `self`, `eagle` and `mtp` have a tree as wide as "
      "the search instead of a chain. `static` is always the same tree. `dynamic` grows where the drafter is "
      "confident. `optimal` is the best tree of `max_tree_nodes` nodes by the drafter's probabilities. "
      "`independent` has `tree_top_k` chains that are drawn independently. `dart` gives each of the best 20 "
      "nodes of a level 25 children, and deeper levels count less, as published.");
  g.add(
      "tree_top_k", integers(1, 16), [](d & o) -> auto& { return o.tree_top_k; },
      "Tree `dynamic`: nodes expanded in each level, and children of each. Tree `static` without "
      "`tree_paths`: children at the first level; each further level has half as many. Tree `independent`: "
      "number of chains.");
  g.add(
      "tree_paths", text_lists, [](d & o) -> auto& { return o.tree_paths; },
      "Nodes of tree `static`. Each one is given by the ranks of the children on its path (`0`, `0.0`, `1`), "
      "and parents come before children. If the list is empty, `tree_top_k` determines the tree; `medusa` "
      "has its published tree of 63 nodes.");
  g.add(
      "draft_sampling", {"sampled", "greedy"}, [](d & o) -> auto& { return o.token_choice; },
      "`sampled`: draft tokens are sampled as the request samples. `greedy`: the likeliest token is always "
      "taken. Only for drafters with a model.");
  g.add(
      "vocabulary", {"same", "intersection", "retokenise"}, [](d & o) -> auto& { return o.vocabulary; },
      "Only for kind `model`. `same`: the drafter's vocabulary equals the target's. `intersection`: only "
      "tokens in both vocabularies are drafted. `retokenise`: the drafter's text is tokenized again for the "
      "target (greedy chains).");
  g.add(
      "layers", integers(0, 4096), [](d & o) -> auto& { return o.layers; },
      "Number of first layers that run; 0 = half of them. Only for kind `self`.");
  g.add(
      "skip_layers", text_lists, [](d & o) -> auto& { return o.skip_layers; },
      "Layers that are left out, by number from 0; all others run. Only for kind `self`.");
  g.add(
      "rope_theta", numbers(0, 1e12), [](d & o) -> auto& { return o.rope_theta; },
      "Base of the rotary positions. It replaces the one in the head's config.json, with which some "
      "published heads were not trained; 0 = the config's. Only for heads.");
  g.add(
      "weights", {"stored", "q8_0", "q4_0"}, [](d & o) -> auto& { return o.weights; },
      "Format of a head's matrices in memory. `q8_0` and `q4_0` quantise them when they are loaded, which "
      "makes drafting faster and drafts a little worse. Only for heads.");
  g.add(
      "mtp_order", {"by_file", "embedding_first", "hidden_first"}, [](d & o) -> auto& { return o.mtp_order; },
      "Which half of the projection's input comes first; `by_file` = as in the family of the file. Only for "
      "kind `mtp`.");
  g.add(
      "taps", text_lists, [](d & o) -> auto& { return o.taps; },
      "The target's layers after which hidden states are read, by number from 0; empty = those that the "
      "head's config.json names. Only for kinds `eagle3`, `dart`, `dflash` and `dspark`.");
  g.add(
      "alignment", {"by_file", "same", "next"}, [](d & o) -> auto& { return o.alignment; },
      "Which token a slot of the block predicts. `by_file`: as in the family of the file. `same`: the token "
      "at the slot's own position, so that the first slot predicts none. `next`: the token after it. Only "
      "for kinds `dflash` and `dspark`.");
  g.add(
      "confidence_threshold", numbers(0, 1), [](d & o) -> auto& { return o.confidence_threshold; },
      "A draft ends before the first token for which the head's own confidence is below this; 0 = never. "
      "Heads without confidences never end a draft. Only for kinds `dflash` and `dspark`.");
  g.add(
      "inner", {"ngram", "suffix", "prediction", "unigram", "bigram", "copy", "random", "synthetic"},
      [](d & o) -> auto& { return o.inner; },
      "Kind of the drafter that guesses the model's own draft tokens, so that one pass of the model computes "
      "several. The options of that kind are read from this drafter's. Only for kind `cascade`.");
}

/// Options of drafters that look tokens up, count them or guess them.
void declare_host_drafters(group_builder<drafter_options>& g) {
  using d = drafter_options;
  g.add(
      "ngram_min", integers(1, 32), [](d & o) -> auto& { return o.ngram_min; },
      "Shortest run of tokens that is looked up. For `nasd` it includes the token that follows, so it is at "
      "least 2. Only for kinds `ngram` and `nasd`.");
  g.add(
      "ngram_max", integers(1, 32), [](d & o) -> auto& { return o.ngram_max; },
      "Longest run of tokens that is looked up. Only for kinds `ngram` and `nasd`.");
  g.add(
      "candidates", integers(1, 16), [](d & o) -> auto& { return o.candidates; },
      "Number of earlier occurrences whose continuations are proposed together, as a tree; 1 = only the last "
      "one. Only for kind `ngram`.");
  g.add(
      "suffix_max", integers(1, 64), [](d & o) -> auto& { return o.suffix_max; },
      "Longest run of last tokens that is looked up. Only for kind `suffix`.");
  g.add(
      "min_probability", numbers(0, 1), [](d & o) -> auto& { return o.min_probability; },
      "A branch is proposed if it followed in at least this share of the earlier occurrences. Only for kind "
      "`suffix`.");
  g.add(
      "corpus_tokens", integers(0, 1U << 26), [](d & o) -> auto& { return o.corpus_tokens; },
      "Number of tokens of earlier outputs that are remembered for each tenant; 0 = none. The oldest are "
      "dropped first. A tenant is an API key, `user` and `cache_salt`. Costs about 270 bytes a token. Only "
      "for kind `suffix`.");
  g.add(
      "corpus_tenants", integers(1, 65536), [](d & o) -> auto& { return o.corpus_tenants; },
      "Number of tenants that are remembered. The least recently active one is dropped first. Only for kind "
      "`suffix`.");
  g.add(
      "corpus", texts, [](d & o) -> auto& { return o.corpus; },
      "File whose tokens are counted at startup. It holds text, or decimal token ids if its name ends in "
      "`.ids`. Without a file only the request's own tokens are counted. Only for kinds `unigram` and "
      "`bigram`.");
  g.add(
      "seed", integers(0, (1ULL << 53) - 1), [](d & o) -> auto& { return o.seed; },
      "Seed of the guesses. Only for kinds `random` and `synthetic`.");
  g.add(
      "acceptance", numbers(0, 1), [](d & o) -> auto& { return o.acceptance; },
      "Share of proposed tokens that are copied from the request's `prediction`; the others are wrong on "
      "purpose. Only for kind `synthetic`.");
  g.add(
      "top_tokens", integers(1, 16), [](d & o) -> auto& { return o.top_tokens; },
      "Number of the target's best tokens that are learnt at every verified position. Only for kind `nasd`.");
  g.add(
      "lookahead_window", integers(1, 32), [](d & o) -> auto& { return o.lookahead_window; },
      "Number of positions that are guessed in parallel. Each costs `lookahead_ngram` - 1 rows in every "
      "round. Only for kind `lookahead`.");
  g.add(
      "lookahead_ngram", integers(2, 8), [](d & o) -> auto& { return o.lookahead_ngram; },
      "Length of the collected n-grams. Only for kind `lookahead`.");
  g.add(
      "lookahead_guesses", integers(1, 32), [](d & o) -> auto& { return o.lookahead_guesses; },
      "Number of collected n-grams that are verified in every round. Only for kind `lookahead`.");
}

} // namespace

void declare_drafter(group_builder<drafter_options>& g) {
  using d = drafter_options;
  g.add(
      "name", texts, [](d & o) -> auto& { return o.name; }, "Name in requests; unique within the model.");
  g.add(
      "kind", {"none",    "ngram",          "suffix",    "prediction", "forced",    "unigram",   "bigram",
               "copy",    "random",         "synthetic", "nasd",       "lookahead", "model",     "self",
               "cascade", "eagle",          "eagle2",    "eagle3",     "medusa",    "blockwise", "mtp",
               "hydra",   "mlp_speculator", "dart",      "dflash",     "dspark",    "pass",      "ppd"},
      [](d & o) -> auto& { return o.kind; },
      "Method by which the drafter finds its tokens; `docs/adding_a_drafter.md` lists the kinds. `none` "
      "proposes nothing.");
  g.add(
      "path", texts, [](d & o) -> auto& { return o.path; },
      "Kinds `model` and `cascade`: GGUF file or Hugging Face directory. Trained heads (`eagle`, `eagle2`, "
      "`eagle3`, `medusa`, `blockwise`, `mtp`, `hydra`, `mlp_speculator`, `dart`, `dflash`, `dspark`, "
      "`pass`, `ppd`): directory with the head's files; for `eagle3`, `mtp`, `dflash` and `dspark` it may be "
      "a GGUF file. `docs/drafters.md` describes the files. For `mtp` it may be empty: then the module in "
      "the model's own files is used.");
  g.add(
      "draft_length", integers(0, 63), [](d & o) -> auto& { return o.draft_length; },
      "Tokens proposed in a round if the request names no number. 0 = all that the head gives for `medusa`, "
      "`blockwise`, `hydra`, `mlp_speculator`, `dart`, `dflash`, `dspark`, `pass` and `ppd`, and 5 for other "
      "kinds.");
  g.add(
      "length_rule", {"fixed", "heuristic", "entropy", "optimal"},
      [](d & o) -> auto& { return o.length_rule; },
      "How the draft length, which is at most `draft_length`, adapts to acceptance. `fixed`: not at all. "
      "`heuristic`: 2 more after full acceptance, 1 less otherwise. `entropy`: fewer if the drafter is "
      "unsure (kinds with a model). `optimal`: the largest speed-up expected from measured acceptance and "
      "times, possibly 0.");
  g.add(
      "entropy_smoothing", numbers(0, 1), [](d & o) -> auto& { return o.entropy_smoothing; },
      "Weight of the entropy of earlier rounds. Only for rule `entropy`.");
  g.add(
      "entropy_min_length", integers(1, 63), [](d & o) -> auto& { return o.entropy_min_length; },
      "Tokens proposed if the drafter is as unsure as it can be. At most `draft_length`, which is the number "
      "if the drafter is certain. Only for rule `entropy`.");
  g.add(
      "max_tree_nodes", integers(0, 64), [](d & o) -> auto& { return o.max_tree_nodes; },
      "Largest number of tokens verified in a round, over all branches. A tree always has room for one "
      "branch of the draft length; if KV memory is short, it has no more. 0 = 8 for dynamic trees of "
      "`eagle2` and `eagle3`, 60 for tree `dart`, and 64 for other trees. Only for drafters that propose "
      "trees.");
  declare_drafting_models(g);
  declare_host_drafters(g);
  g.add(
      "partition", integers(0, 63), [](d & o) -> auto& { return o.partition; },
      "CPU partition on which the drafter runs. A partition that does not exist means the target's. Only for "
      "drafters with a model.");
  g.add(
      "device", texts, [](d & o) -> auto& { return o.device; },
      "Device that computes the drafter's own model: `cpu` or `cuda:N`; `auto` is the target's device. Only "
      "for kinds `model` and `cascade`.");
}

} // namespace paceline::config
