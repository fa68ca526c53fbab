#pragma once

#include "apps/bench/lone_model.hpp"
#include "config/engine_options.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/head_loader.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// A draft head and the shape of its drafts, over a made-up text of a target, without an engine.
class lone_head {
 public:
  /// How it drafts, and the mean number of tokens a round that was published for such drafts.
  struct shape {
    config::drafter_options options; ///< kind, levels and tree
    double acceptance_length = 0;    ///< with the target's own token; 0: none is known
    std::string source;              ///< of that length
  };

  /// Loads the head in `path` for `target`, which outlives it, with each shape that was published for its
  /// kind, or else the kind's own.
  static expected<std::vector<std::unique_ptr<lone_head>>> open_all(const lone_model& target,
                                                                    const std::string& path,
                                                                    const model::head_load_options& load,
                                                                    std::uint32_t context);

  const std::string& path() const noexcept { return path_; }
  const shape& drafts() const noexcept { return shape_; }
  const model::draft_head& head() const noexcept { return *head_; }
  std::uint32_t levels() const noexcept { return shape_.options.draft_length; }
  std::uint32_t nodes() const noexcept { return num_nodes_; } ///< of a whole draft, after `read_text`

  // To be called inside a program:

  /// The target's pass over the text, which writes the states that the head reads, and the head's. To be
  /// called first.
  void read_text(device::ops& ops);
  /// The target's pass over so many positions behind the text; states are written, too.
  void pass(device::ops& ops, std::uint32_t num_rows) { passes_->run(ops, context_, context_ + num_rows); }
  /// Makes the head lack the last tokens of the text, as many as a round commits.
  void forget(device::ops& ops);
  /// A draft of so many levels behind the text.
  void draft(device::ops& ops, std::uint32_t num_levels) { propose(ops, tokens_.size(), num_levels); }

 private:
  lone_head(const lone_model& target, std::string path, std::shared_ptr<const model::draft_head> head,
            shape drafts, std::unique_ptr<speculation::drafter> drafter, std::uint32_t context);
  /// Drafts behind the first `length` tokens; returns the nodes, none if the head has not read them all.
  std::size_t propose(device::ops& ops, std::size_t length, std::uint32_t num_levels);

  std::string path_;
  std::shared_ptr<const model::draft_head> head_;
  shape shape_;
  std::uint32_t context_;
  std::uint32_t num_nodes_ = 0;
  std::unique_ptr<speculation::drafter> drafter_;
  std::unique_ptr<speculation::drafter_session> session_;
  std::unique_ptr<model::kv_storage> target_kv_, kv_;
  std::unique_ptr<model::made_up_passes> passes_;
  std::vector<block_id> blocks_; ///< of its own pool
  std::vector<token_id> tokens_; ///< the text and the token behind it
  sampling::pipeline sampling_;
  sampling::token_counts counts_;
};

} // namespace paceline::apps::bench
