#pragma once

#include "apps/bench/lone_model.hpp"
#include "config/engine_options.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// A draft head with one draft shape, run on a made-up text of a target, without an engine.
class lone_head {
 public:
  /// Options of the drafts, and the acceptance length that was published for drafts of this shape.
  struct shape {
    config::drafter_options options; ///< kind, levels and tree
    double acceptance_length = 0;    ///< including the target's own token; 0: unknown
    std::string source;              ///< where that length was published
  };

  /// Loads the head in `path` for `target`, which must outlive the results. Returns one object for each draft
  /// shape that was published for the head's kind; if there is none, one with the kind's default shape.
  static expected<std::vector<std::unique_ptr<lone_head>>> open_all(const lone_model& target,
                                                                    const std::string& path,
                                                                    const model::head_load_options& load,
                                                                    std::uint32_t context);

  const std::string& path() const noexcept { return path_; }
  const shape& drafts() const noexcept { return shape_; }
  const model::draft_head& head() const noexcept { return *head_; }
  std::uint32_t levels() const noexcept { return shape_.options.draft_length; }
  std::uint32_t nodes() const noexcept { return num_nodes_; } ///< of a whole draft; valid after `read_text`

  // To be called inside a program:

  /// Runs the target over the text, stores the hidden states that the head reads, and lets the head read
  /// them. To be called first.
  void read_text(device::ops& ops);
  /// Runs the target over `num_rows` positions after the text, and stores the hidden states that the head
  /// reads.
  void pass(device::ops& ops, std::uint32_t num_rows) { passes_->run(ops, context_, context_ + num_rows); }
  /// Makes the head forget the last tokens of the text, as many as a round commits, so that the next draft
  /// has to read them.
  void forget(device::ops& ops);
  /// Drafts `num_levels` levels after the text.
  void draft(device::ops& ops, std::uint32_t num_levels) { propose(ops, tokens_.size(), num_levels); }

 private:
  lone_head(const lone_model& target, std::string path, std::shared_ptr<const model::draft_head> head,
            shape drafts, std::unique_ptr<speculation::drafter> drafter, std::uint32_t context);
  /// Drafts after the first `length` tokens. Returns the number of nodes: 0 if the head has not read all of
  /// these tokens yet.
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
  std::vector<block_id> blocks_; ///< of the head's own pool
  std::vector<token_id> tokens_; ///< the text and the token after it
  sampling::pipeline sampling_;
  sampling::token_counts counts_;
};

} // namespace paceline::apps::bench
