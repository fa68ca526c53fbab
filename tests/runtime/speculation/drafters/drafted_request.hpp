#pragma once

#include "runtime/device/ops.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/speculation/drafters/drafter.hpp"
#include "tests/support/draft_tasks.hpp"

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

/// One request and a drafter with a model, without a target: the tests choose what is committed.
namespace paceline::speculation::test_support {

/// A hash model that counts rows, reports its passes, and can fail one.
class counted_model final : public model::language_model {
 public:
  explicit counted_model(const model::hash_model_config& config) : model_(config) {}
  const model::model_info& info() const noexcept override { return model_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override {
    return model_.make_kv_storage(num_blocks, block_size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    rows_of_passes.push_back(batch.rows.size());
    if (fail_next_pass) {
      fail_next_pass = false;
      throw std::runtime_error("lost");
    }
    model_.forward(ops, batch, kv, outputs);
  }
  mutable std::vector<std::size_t> rows_of_passes;
  mutable bool fail_next_pass = false;

 private:
  model::hash_model model_;
};

class drafted_request {
 public:
  static constexpr std::uint32_t block_size = 4;

  drafted_request(drafter& by, const sampling_params& params, std::size_t prompt_length, std::uint32_t vocab,
                  std::uint32_t num_blocks = 200)
      : pipeline(params, {}), drafter_(&by), session_(by.open(request_id{1})),
        kv_(by.own_model() ? by.own_model()->make_kv_storage(num_blocks, block_size) : nullptr) {
    for (std::size_t i = 0; i < prompt_length; ++i)
      tokens.push_back(token_id{static_cast<std::int32_t>((i * i + 3) % vocab)});
    prompt_length_ = static_cast<std::uint32_t>(prompt_length);
    counts.add_prompt(tokens);
    for (std::uint32_t i = 0; i < num_blocks; ++i) blocks.push_back(block_id{num_blocks - 1 - i});
  }

  draft propose() {
    test::no_ops ops;
    return propose_on(ops);
  }
  draft propose_on(device::ops& ops) { return propose_for(ops, tokens, session_.get()); }
  /// A draft after `more`, which a verdict may or may not commit.
  draft propose_in_advance(std::span<const token_id> more) {
    auto text = tokens;
    text.insert(text.end(), more.begin(), more.end());
    test::no_ops ops;
    const auto clone = session_->clone();
    session_->forget_draft();
    return propose_for(ops, text, clone.get());
  }

  void commit(std::span<const token_id> more) {
    for (const token_id token : more) {
      tokens.push_back(token);
      counts.add_output(token);
    }
  }

  void end() { session_->end({tokens, prompt_length_, {}}); }

  /// Commits a random part of a random path of `proposal` and a random token.
  void commit_some(const draft& proposal, std::mt19937_64& random, std::uint32_t vocab) {
    std::vector<token_id> path;
    std::int32_t at = token_tree::root;
    while (random() % 4 != 0) {
      std::vector<std::int32_t> children;
      for (std::int32_t node = 0; node < static_cast<std::int32_t>(proposal.tree.size()); ++node)
        if (proposal.tree.parents()[static_cast<std::size_t>(node)] == at) children.push_back(node);
      if (children.empty()) break;
      at = children[random() % children.size()];
      path.push_back(proposal.tree.tokens()[static_cast<std::size_t>(at)]);
    }
    path.push_back(token_id{static_cast<std::int32_t>(random() % vocab)});
    commit(path);
  }

  sampling::row_context row_below(std::span<const token_id> path) const {
    const auto depth = static_cast<std::uint32_t>(path.size());
    const auto committed = static_cast<std::uint32_t>(tokens.size());
    return {.committed = &counts,
            .draft_path = path,
            .position = token_position{committed + depth},
            .output_index = committed - prompt_length_ + depth};
  }
  std::vector<float> logits_below(const model::hash_model& oracle, std::span<const token_id> path) const {
    std::vector<token_id> context = tokens;
    context.insert(context.end(), path.begin(), path.end());
    return oracle.logits_after(context);
  }

  std::vector<token_id> tokens;
  sampling::pipeline pipeline;
  sampling::token_counts counts;
  std::vector<block_id> blocks;
  verification_rule rule = verification_rule::coupled;
  std::uint32_t draft_length = 4;
  std::uint32_t max_nodes = token_tree::max_nodes;
  std::uint32_t beam_width = 0;
  target_cells in_target = {};
  std::vector<token_id> prediction;

  model::kv_storage& kv() { return *kv_; }

 private:
  draft propose_for(device::ops& ops, std::span<const token_id> text, drafter_session* session) {
    draft_task task{};
    task.request = request_id{1};
    task.tokens = text;
    task.num_foreseen = static_cast<std::uint32_t>(text.size() - tokens.size());
    task.sampling = &pipeline;
    task.counts = &counts;
    task.prompt_length = prompt_length_;
    task.rule = rule;
    task.draft_length = draft_length;
    task.max_nodes = max_nodes;
    task.beam_width = beam_width;
    task.blocks = blocks;
    task.session = session;
    task.prediction = prediction;
    task.target_cells = in_target;
    drafter_->propose(ops, kv_.get(), {&task, 1});
    return std::move(task.result);
  }

  drafter* drafter_;
  std::unique_ptr<drafter_session> session_;
  std::unique_ptr<model::kv_storage> kv_;
  std::uint32_t prompt_length_ = 0;
};

} // namespace paceline::speculation::test_support
