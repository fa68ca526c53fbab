#pragma once

#include "runtime/base/kv_type.hpp"
#include "runtime/base/request.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::config {

/// How drafting overlaps with verification (docs/overlap.md).
enum class overlap_mode : std::uint8_t {
  off,    ///< the drafter waits while the target verifies
  groups, ///< two batch groups: the drafter drafts for one while the target verifies the other
  ahead,  ///< while a draft is verified, the next one is made as if every draft token were accepted
  /// While a draft is verified, the next drafts are made for several possible results; the actual result
  /// selects one.
  outcomes,
  automatic, ///< the mode that is fastest by measured times
};

/// Shape of the drafts of a drafter with a model or a head. config/README.md describes the shapes.
enum class tree_kind : std::uint8_t { chain, fixed, dynamic, optimal, independent, dart, by_kind };

/// How a drafter with a model picks tokens for a request that samples: like the request, or always the
/// likeliest token.
enum class draft_sampling : std::uint8_t { sampled, greedy };

/// How the vocabulary of a drafter of kind model relates to the target's. `same`: they are equal.
/// `intersection`: only tokens in both are drafted. `retokenise`: the drafted text is tokenized again.
enum class draft_vocabulary : std::uint8_t { same, intersection, retokenise };

/// Which half of the input of an MTP module's projection comes first: the token's embedding or the hidden
/// state. `by_file`: as in the model family of the file.
enum class mtp_concat : std::uint8_t { by_file, embedding_first, hidden_first };

/// Which token a slot of a block drafter (dflash, dspark) predicts: the one at the slot's position or the one
/// after it. `by_file`: as in the model family of the file.
enum class slot_alignment : std::uint8_t { by_file, same, next };

/// Format of a trained head's matrices in memory: as in the file, or quantised when the head is loaded.
enum class head_format : std::uint8_t { stored, q8_0, q4_0 };

/// One drafter of one model. If the comment of an option begins with kinds, a rule (`length_rule`) or a tree,
/// only drafters with these use the option. "Heads" are the kinds with a trained head (`drafts_with_head`).
struct drafter_options {
  std::string name;          ///< name in requests; unique within the model
  std::string kind = "none"; ///< a key of the drafter registry
  /// Kinds model, cascade: GGUF file or Hugging Face directory. Heads: directory or, for eagle3, mtp, dflash
  /// and dspark, GGUF file. Empty for kind mtp: the module in the model's own files.
  std::string path;
  std::uint32_t draft_length = 0; ///< tokens per round if the request names no number; 0: by kind
  paceline::length_rule length_rule = paceline::length_rule::fixed; ///< how the length adapts to acceptance
  float entropy_smoothing = 0.5F;       ///< rule entropy: weight of earlier rounds, below 1
  std::uint32_t entropy_min_length = 1; ///< rule entropy: smallest length; at most `draft_length`
  /// Limit for a draft tree, over all branches; 0: by kind. A tree always has room for one branch of the
  /// draft length.
  std::uint32_t max_tree_nodes = 0;
  tree_kind tree = tree_kind::by_kind; ///< for drafters with a model or a head
  /// Tree dynamic: nodes expanded in a level, and children of each. Tree fixed ("static" in files): children
  /// at the first level. Tree independent: number of chains.
  std::uint32_t tree_top_k = 4;
  /// Tree fixed: nodes as paths of child ranks ("0", "0.0", "1"), parents before children. Empty: the tree of
  /// the kind or, if the kind has none, one made from `tree_top_k`.
  std::vector<std::string> tree_paths;
  draft_sampling token_choice = draft_sampling::sampled;
  draft_vocabulary vocabulary = draft_vocabulary::same;
  std::uint32_t layers = 0; ///< kind self: number of first layers that run; 0 = half of all layers
  /// Kind self, instead of `layers`: numbers, from 0, of the layers left out.
  std::vector<std::string> skip_layers;
  double rope_theta = 0; ///< heads: base of the rotary positions; 0: the one in their config
  head_format weights = head_format::stored;  ///< heads: format of their matrices
  mtp_concat mtp_order = mtp_concat::by_file; ///< kind mtp: order of the projection's input
  /// Heads: target layers after which hidden states are read; empty: those in their config.
  std::vector<std::string> taps;
  slot_alignment alignment = slot_alignment::by_file; ///< kinds dflash, dspark
  /// Kinds dflash, dspark: a draft ends before the first token whose confidence is below this; 0: never.
  float confidence_threshold = 0;
  std::string inner = "ngram";  ///< kind cascade: kind of the drafter that drafts for the cascade's own model
  std::uint32_t ngram_min = 2;  ///< kinds ngram, nasd: shortest suffix looked up
  std::uint32_t ngram_max = 4;  ///< kinds ngram, nasd: longest suffix looked up
  std::uint32_t candidates = 1; ///< kind ngram: number of continuations proposed together, as a tree
  std::uint32_t suffix_max = 32; ///< kind suffix: longest run of last tokens looked up
  /// Kind suffix: a branch is proposed if it followed in at least this share of the earlier occurrences.
  float min_probability = 0.1F;
  /// Kind suffix: tokens of earlier outputs kept for each tenant (API key, `user`, `cache_salt`); 0 = none.
  std::uint32_t corpus_tokens = 16384;
  /// Kind suffix: number of tenants kept; the least recently active one is dropped first.
  std::uint32_t corpus_tenants = 16;
  /// Kinds unigram, bigram: file whose tokens are counted: text or, if its name ends in .ids, token ids.
  std::string corpus;
  std::uint64_t seed = 0; ///< kinds random, synthetic
  /// Kind synthetic: share of its tokens that are copied from the request's prediction.
  float acceptance = 0.8F;
  std::uint32_t top_tokens = 3;        ///< kind nasd: number of the target's best tokens learnt for each row
  std::uint32_t lookahead_window = 5;  ///< kind lookahead: positions guessed in parallel
  std::uint32_t lookahead_ngram = 3;   ///< kind lookahead: length of the n-grams collected
  std::uint32_t lookahead_guesses = 5; ///< kind lookahead: n-grams verified in a round
  /// Drafters with a model: index of the CPU partition on which the model runs. If there is no such
  /// partition, the model runs on the target's partition.
  std::uint32_t partition = 0;
  std::string device = "auto"; ///< kinds model, cascade: see `parse_device`; auto: the target's device
};

/// A model without weights: deterministic logits from a hash of the context (tests, demonstrations, load
/// tests).
struct hash_model_options {
  std::uint32_t vocab_size = 300; ///< at least 258: 256 bytes, BOS, EOS
  std::uint32_t memory = 0;       ///< number of last tokens on which the next one depends; 0 = all
  float sharpness = 8.0F;         ///< spread of the logits: higher = more certain
  std::uint32_t pass_work = 0;    ///< hash steps computed in each pass, so that it takes time
};

/// Largest `context_length` that a model may be given, in tokens.
inline constexpr std::uint32_t max_context_length = 1U << 24;

struct model_options {
  std::string name = "default";
  std::vector<std::string> aliases;
  std::string kind = "file"; ///< file | hash
  std::string path;          ///< kind file: GGUF file or Hugging Face directory
  hash_model_options hash;
  std::string device = "auto";      ///< see `parse_device`; auto: the CPU
  std::uint32_t context_length = 0; ///< tokens in a prompt and its output; 0 = the model's own, at most 8192
  std::uint32_t block_size = 16;    ///< tokens in a KV block
  kv_type kv_dtype = kv_type::f16;
  std::string chat_template;             ///< path of a template that replaces the model's own, or "chatml"
  std::string tool_call_parser = "auto"; ///< one of `call_syntax_names`; auto: by the template
  std::string reasoning_parser = "auto"; ///< none, think, mistral; auto: by the template
  std::vector<drafter_options> drafters;
  std::string default_drafter = "auto";
  std::uint32_t auto_draft_length = 16; ///< largest number of levels in a draft of drafter "auto"
  verification_rule default_rule = verification_rule::coupled; ///< for requests that name none
  std::uint32_t max_running = 8;                               ///< requests decoded at the same time
  std::uint32_t max_waiting = 256; ///< requests queued in addition; further ones are refused with queue_full
};

/// The options of an engine: plain values, already validated.
struct engine_options {
  std::vector<model_options> models;
  std::uint32_t threads = 0;    ///< CPU threads in all partitions; 0 = one for each core
  std::uint32_t partitions = 1; ///< independent groups of cores
  /// Limit for the KV of all models and drafters in the host's memory. The same limit applies to each GPU's
  /// memory. 0 = as much as `max_running` requests need, at most half of the machine's memory and nine tenths
  /// of a GPU's free memory.
  std::uint64_t memory_budget_bytes = 0;
  overlap_mode overlap = overlap_mode::automatic;
  std::uint32_t outcome_guesses = 1; ///< for mode outcomes: tokens guessed at each position of a draft
  /// Longest pause in a running request's output that the prompts of other requests may cause.
  std::chrono::milliseconds max_gap{200};
  /// Longest duration of one round. If a round takes longer, its device counts as lost.
  std::chrono::milliseconds round_timeout{std::chrono::minutes(5)};
  /// How long the passes of a model with drafters are timed, over 1 to 64 rows, when the model is loaded.
  std::chrono::milliseconds pass_timing{1000};
  std::uint32_t actor_threads = 2; ///< threads of the actor system, if the engine creates it
  bool prefix_cache = true;        ///< requests share the KV blocks of common prompt prefixes
  /// Most restarts of one actor within `restart_window`. If it dies once more, it is not restarted, and the
  /// models that need it go out of service.
  std::uint32_t max_restarts = 10;
  std::chrono::seconds restart_window{10};
};

} // namespace paceline::config
