#include "config/drafter_option_table.hpp"

namespace paceline::config {

namespace {

/// Options of drafters with a model: tree shapes, vocabularies, layers.
void declare_drafting_models(group_builder<drafter_options>& g) {
  using d = drafter_options;
  g.add(
      "tree", {"chain", "static", "dynamic", "optimal", "independent", "dart", "by_kind"},
      [](d & o) -> auto& { return o.tree; },
      "Of drafters with a model or a head, except `cascade`: shape of a draft. `by_kind`: `dynamic` of `eagle2` and "
      "`eagle3`, `static` of `medusa` and `hydra`, `dart` of `dart`, else `chain`; "
      "of `model`, `self`, `eagle` and `mtp` for beam searches a tree as wide as the search. `static` is always the same "
      "tree; `dynamic` grows where the drafter is confident; `optimal` is the best tree of `max_tree_nodes` nodes by the drafter's "
      "probabilities; `independent` has `tree_top_k` chains that are drawn independently; `dart` gives the best "
      "20 nodes of a level 25 children each, and deeper levels count less, as published.");
  g.add(
      "tree_top_k", integers(1, 16), [](d & o) -> auto& { return o.tree_top_k; },
      "Of tree `dynamic`: nodes expanded in each level, and children of each; of `static` without "
      "`tree_paths`: children at the first level, half as many at each further level; of `independent`: number "
      "of chains.");
  g.add(
      "tree_paths", text_lists, [](d & o) -> auto& { return o.tree_paths; },
      "Of tree `static`: its nodes, each as the ranks of the children on its path (`0`, `0.0`, `1`); parents "
      "before children. Without any: those that `tree_top_k` gives; of `medusa` its published tree of 63 nodes.");
  g.add(
      "draft_sampling", {"sampled", "greedy"}, [](d & o) -> auto& { return o.token_choice; },
      "Of drafters with a model: sample draft tokens as the request does, or always take the likeliest.");
  g.add(
      "vocabulary", {"same", "intersection", "retokenise"}, [](d & o) -> auto& { return o.vocabulary; },
      "Of kind `model`: `same`: its vocabulary equals the target's; `intersection`: only tokens in both "
      "vocabularies are drafted; `retokenise`: its text is tokenized again for the target (greedy chains).");
  g.add(
      "layers", integers(0, 4096), [](d & o) -> auto& { return o.layers; },
      "Of kind `self`: number of first layers that run; 0 = half of them.");
  g.add(
      "skip_layers", text_lists, [](d & o) -> auto& { return o.skip_layers; },
      "Of kind `self`: layers left out, by number from 0; all others run.");
  g.add(
      "rope_theta", numbers(0, 1e12), [](d & o) -> auto& { return o.rope_theta; },
      "Of heads: base of the rotary positions instead of the one in their config.json, which some published heads "
      "were not trained with; 0 = that one.");
  g.add(
      "weights", {"stored", "q8_0", "q4_0"}, [](d & o) -> auto& { return o.weights; },
      "Of heads: format of their matrices in memory. `q8_0` and `q4_0` quantise them when they are loaded, which makes "
      "drafting faster and drafts a little worse.");
  g.add(
      "mtp_order", {"by_file", "embedding_first", "hidden_first"}, [](d & o) -> auto& { return o.mtp_order; },
      "Of kind `mtp`: which half of its projection's input comes first, instead of what the family of its file has.");
  g.add(
      "taps", text_lists, [](d & o) -> auto& { return o.taps; },
      "Of kinds `eagle3`, `dart`, `dflash` and `dspark`: the target's layers after which hidden states are read, by "
      "number from 0, instead of those that its config.json names.");
  g.add(
      "alignment", {"by_file", "same", "next"}, [](d & o) -> auto& { return o.alignment; },
      "Of kinds `dflash` and `dspark`: which token a slot of the block predicts, instead of what the family of its file "
      "has: `same`: the one at its own position, so that the first slot gives none; `next`: the one after it.");
  g.add(
      "confidence_threshold", numbers(0, 1), [](d & o) -> auto& { return o.confidence_threshold; },
      "Of kinds `dflash` and `dspark`: a draft ends before the first token for which the head's own confidence is "
      "below this; 0 = never. Heads without confidences never end a draft.");
  g.add(
      "inner", {"ngram", "suffix", "prediction", "unigram", "bigram", "copy", "random", "synthetic"},
      [](d & o) -> auto& { return o.inner; },
      "Of kind `cascade`: kind of the drafter that guesses the model's own draft tokens, so that one pass of the model "
      "computes several. That kind's options are read from this drafter's.");
}

/// Of drafters that look tokens up, count or guess them.
void declare_host_drafters(group_builder<drafter_options>& g) {
  using d = drafter_options;
  g.add(
      "ngram_min", integers(1, 32), [](d & o) -> auto& { return o.ngram_min; },
      "Of kinds `ngram` and `nasd`: shortest run of tokens looked up (of `nasd` with the token that follows, so at least 2).");
  g.add(
      "ngram_max", integers(1, 32), [](d & o) -> auto& { return o.ngram_max; },
      "Of kinds `ngram` and `nasd`: longest run of tokens looked up.");
  g.add(
      "candidates", integers(1, 16), [](d & o) -> auto& { return o.candidates; },
      "Of kind `ngram`: earlier occurrences whose continuations are proposed together, as a tree; 1 = only the "
      "last one.");
  g.add(
      "suffix_max", integers(1, 64), [](d & o) -> auto& { return o.suffix_max; },
      "Of kind `suffix`: longest run of last tokens looked up.");
  g.add(
      "min_probability", numbers(0, 1), [](d & o) -> auto& { return o.min_probability; },
      "Of kind `suffix`: a branch is proposed if it followed in at least this share of the earlier occurrences.");
  g.add(
      "corpus_tokens", integers(0, 1U << 26), [](d & o) -> auto& { return o.corpus_tokens; },
      "Of kind `suffix`: tokens of earlier outputs remembered for each tenant, the oldest are dropped first; 0 "
      "= none. A tenant is an API key, `user` and `cache_salt`. Costs about 270 bytes a token.");
  g.add(
      "corpus_tenants", integers(1, 65536), [](d & o) -> auto& { return o.corpus_tenants; },
      "Of kind `suffix`: tenants remembered; the least recently active one is dropped first.");
  g.add(
      "corpus", texts, [](d & o) -> auto& { return o.corpus; },
      "Of kinds `unigram` and `bigram`: file whose tokens are counted at startup: text, or decimal token ids "
      "if its name ends in `.ids`. Without one only the request's own tokens are counted.");
  g.add(
      "seed", integers(0, (1ULL << 53) - 1), [](d & o) -> auto& { return o.seed; },
      "Of kinds `random` and `synthetic`: seed of the guesses.");
  g.add(
      "acceptance", numbers(0, 1), [](d & o) -> auto& { return o.acceptance; },
      "Of kind `synthetic`: share of proposed tokens that are copied from the request's `prediction`; the "
      "others are wrong on purpose.");
  g.add(
      "top_tokens", integers(1, 16), [](d & o) -> auto& { return o.top_tokens; },
      "Of kind `nasd`: number of the target's best tokens learnt at every verified position.");
  g.add(
      "lookahead_window", integers(1, 32), [](d & o) -> auto& { return o.lookahead_window; },
      "Of kind `lookahead`: positions guessed in parallel; each costs `lookahead_ngram` - 1 rows in every "
      "round.");
  g.add(
      "lookahead_ngram", integers(2, 8), [](d & o) -> auto& { return o.lookahead_ngram; },
      "Of kind `lookahead`: length of the collected n-grams.");
  g.add(
      "lookahead_guesses", integers(1, 32), [](d & o) -> auto& { return o.lookahead_guesses; },
      "Of kind `lookahead`: collected n-grams verified in every round.");
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
      "Method by which it finds its tokens; `docs/adding_a_drafter.md` lists the kinds. `none` proposes nothing.");
  g.add(
      "path", texts, [](d & o) -> auto& { return o.path; },
      "Of kinds `model` and `cascade`: GGUF file or Hugging Face directory. Of trained heads (`eagle`, `eagle2`, "
      "`eagle3`, `medusa`, `blockwise`, `mtp`, `hydra`, `mlp_speculator`, `dart`, `dflash`, `dspark`, `pass`, `ppd`): "
      "directory with their files, or of `eagle3`, `mtp`, `dflash` and `dspark` a GGUF file; `docs/drafters.md` describes "
      "them. For `mtp` it may be left empty: then the module in the model's own files is used.");
  g.add(
      "draft_length", integers(0, 63), [](d & o) -> auto& { return o.draft_length; },
      "Tokens proposed in a round if the request names no number. 0 = all that the head gives of `medusa`, `blockwise`, "
      "`hydra`, `mlp_speculator`, `dart`, `dflash`, `dspark`, `pass` and `ppd`, else 5.");
  g.add(
      "length_rule", {"fixed", "heuristic", "entropy", "optimal"},
      [](d & o) -> auto& { return o.length_rule; },
      "How the draft length adapts to acceptance, up to `draft_length`: `fixed`: not at all; `heuristic`: 2 "
      "more after full acceptance, 1 less otherwise; `entropy`: fewer if the drafter is unsure (kinds with a "
      "model); `optimal`: the largest speed-up expected from measured acceptance and times, possibly 0.");
  g.add(
      "entropy_smoothing", numbers(0, 1), [](d & o) -> auto& { return o.entropy_smoothing; },
      "Of rule `entropy`: weight of earlier rounds' entropy.");
  g.add(
      "entropy_min_length", integers(1, 63), [](d & o) -> auto& { return o.entropy_min_length; },
      "Of rule `entropy`: tokens proposed if the drafter is as unsure as it can be; at most `draft_length`, which is "
      "proposed if it is certain.");
  g.add(
      "max_tree_nodes", integers(0, 64), [](d & o) -> auto& { return o.max_tree_nodes; },
      "Of drafters that propose trees: largest number of tokens verified in a round, over all branches. A tree "
      "always has room for one branch of the draft length; if KV memory is short, it has no more. 0 = 8 of dynamic "
      "trees of `eagle2` and `eagle3`, 60 of tree `dart`, else 64.");
  declare_drafting_models(g);
  declare_host_drafters(g);
  g.add(
      "partition", integers(0, 63), [](d & o) -> auto& { return o.partition; },
      "Of drafters with a model: CPU partition on which it runs; one that does not exist means the target's.");
  g.add(
      "device", texts, [](d & o) -> auto& { return o.device; },
      "Of kinds `model` and `cascade`: device that computes the drafter's own model, `cpu` or `cuda:N`; `auto` is the "
      "target's device.");
}

} // namespace paceline::config
