#pragma once

#include "runtime/device/ops.hpp"
#include "runtime/speculation/drafters/drafter.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "tests/support/test_drafters.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// One request and one drafter, without a target: tests what is proposed after which text.
namespace paceline::test {

using ids = std::vector<std::int32_t>;

inline std::vector<token_id> tokens_of(const ids& values) { return {values.begin(), values.end()}; }
inline ids values_of(std::span<const token_id> tokens) {
  ids values;
  for (const token_id token : tokens) values.push_back(token.value);
  return values;
}

/// A drafter of the built-in registry.
inline std::unique_ptr<speculation::drafter> built_in(const config::drafter_options& options,
                                                      std::uint32_t vocab_size = 1000) {
  auto made = speculation::drafter_registry::with_built_in().make(
      {.options = options, .own_model = nullptr, .target_vocab_size = vocab_size});
  if (!made) throw std::runtime_error(made.error().message());
  return *std::move(made);
}

/// Ops for drafters that compute nothing on a device.
struct no_ops final : device::ops {
  std::string_view level() const noexcept override { return "test"; }
};

/// A request as one drafter sees it over several calls.
class drafted_request {
 public:
  drafted_request(speculation::drafter& from, std::string tenant = {}, std::uint64_t id = 1)
      : from_(&from), tenant_(std::move(tenant)), id_(id), session_(from.open(request_id{id})) {}
  drafted_request(const drafted_request&) = delete;
  drafted_request& operator=(const drafted_request&) = delete;
  ~drafted_request() { end(); }

  /// The request ends with the text that was drafted for last, followed by these tokens.
  void end(const ids& last_round = {}) {
    if (!session_) return;
    for (const token_id token : tokens_of(last_round)) text_.push_back(token);
    session_->end({text_, prompt_length, tenant_});
    session_.reset();
  }

  /// To be set before a call; the task's views refer to these.
  std::vector<token_id> prediction;
  std::uint32_t prompt_length = 0;
  std::uint32_t max_nodes = 64;
  std::uint32_t max_rows = 192;
  verification_rule rule = verification_rule::coupled;
  float temperature = 0.0F;
  std::uint64_t seed = 1;
  std::optional<speculation::round_feedback> last_round;
  constraint_cursor* constraint = nullptr;

  speculation::draft propose(const ids& text, std::uint32_t length) {
    text_ = tokens_of(text);
    sampling_params params;
    params.temperature = temperature;
    params.seed = seed;
    const sampling::pipeline pipeline(params, {});
    speculation::draft_task task{};
    task.request = request_id{id_};
    task.tokens = text_;
    task.sampling = &pipeline;
    task.prompt_length = prompt_length;
    task.rule = rule;
    task.draft_length = length;
    task.max_nodes = max_nodes;
    task.max_rows = max_rows;
    task.max_probe_depth = 64;
    task.last_round = last_round ? &*last_round : nullptr;
    task.tenant = tenant_;
    task.prediction = prediction;
    task.constraint = constraint;
    task.session = session_.get();
    no_ops ops;
    from_->propose(ops, nullptr, {&task, 1});
    return std::move(task.result);
  }

  /// The draft's tokens, which must be a chain.
  ids chain(const ids& text, std::uint32_t length) {
    const auto draft = propose(text, length);
    if (!draft.tree.is_chain()) return {-1};
    return values_of(draft.tree.tokens());
  }

  /// Every path from the root to a leaf, in order of the leaves.
  std::vector<ids> paths(const ids& text, std::uint32_t length) {
    return paths_of(propose(text, length).tree);
  }

  static std::vector<ids> paths_of(const speculation::token_tree& tree) {
    std::vector<ids> all;
    for (std::int32_t node = 0; node < static_cast<std::int32_t>(tree.size()); ++node) {
      if (!tree.is_leaf(node)) continue;
      ids path;
      for (const auto at : tree.path_to(node))
        path.push_back(tree.tokens()[static_cast<std::size_t>(at)].value);
      all.push_back(std::move(path));
    }
    return all;
  }

 private:
  speculation::drafter* from_;
  std::string tenant_;
  std::uint64_t id_;
  std::unique_ptr<speculation::drafter_session> session_;
  std::vector<token_id> text_;
};

} // namespace paceline::test
