#pragma once

#include "tests/support/model_drafters.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/simulation.hpp"
#include "tests/support/small_target.hpp"
#include "tests/support/test_drafters.hpp"

#include "runtime/speculation/drafters/registry.hpp"

#include <chrono>
#include <random>

namespace paceline::test {

/// A request; a different one for every `n`.
inline generation_request request_number(std::uint32_t n, float temperature, std::uint32_t max_tokens = 24) {
  generation_request r;
  for (std::uint32_t i = 0; i < 5 + 3 * (n % 7); ++i)
    r.prompt.emplace_back(static_cast<std::int32_t>((i * 11 + n * 17) % 60));
  r.stop.max_tokens = max_tokens + n % 5;
  r.stop.ignore_eos = true;
  r.sampling.temperature = temperature;
  r.sampling.seed = 77 + n;
  r.sampling.repetition_penalty = n % 3 == 1 ? 1.2F : 1.0F;
  r.sampling.top_k = n % 4 == 2 ? 20 : 0;
  return r;
}

/// A target for which each row costs a third of a pass, so that it matters which drafts are verified.
inline std::chrono::nanoseconds expensive_rows(std::uint64_t rows) {
  return std::chrono::microseconds(2000 + 1000 * rows);
}

/// A beam search; a different one for every `n`. Every other one has tokens that end it.
inline generation_request search_number(std::uint32_t n, std::uint32_t width, std::uint32_t max_tokens = 16) {
  auto r = request_number(n, 1.0F, max_tokens);
  r.sampling.top_k = 0;
  r.beams.width = width;
  r.beams.num_best = 1 + n % width;
  r.beams.length_penalty = n % 3 == 0 ? 1.0F : n % 3 == 1 ? 0.0F : 2.0F;
  if (n % 2 == 1) {
    r.stop.stop_ids = {token_id{3}, token_id{17}, token_id{40}};
    r.sampling.logit_bias = {{token_id{17}, 1.5F}};
    r.stop.min_tokens = n % 4;
  }
  return r;
}

/// The drafters of the exactness grid by name. `num_wanted` counts the nodes that "tree" would propose if it
/// had cells for all.
inline std::unique_ptr<speculation::drafter>
drafter_called(const std::string& name, const model::hash_model_config& target,
               std::shared_ptr<std::uint64_t> num_wanted = std::make_shared<std::uint64_t>()) {
  auto same = std::make_shared<model::hash_model>(target);
  const auto right =
      own_sample([same](std::span<const token_id> context) { return same->logits_after(context); });
  if (name == "always_right") return make_scripted_drafter(name, right);
  if (name == "always_wrong") return make_scripted_drafter(name, contradict(right, target.vocab_size));
  if (name == "half_right")
    return make_scripted_drafter(
        name, [right, wrong = contradict(right, target.vocab_size)](const auto& task, auto path) {
          return (task.tokens.size() + path.size()) % 3 == 0 ? wrong(task, path) : right(task, path);
        });
  if (name == "often_right") // right for seven of ten tokens
    return make_scripted_drafter(
        name, [right, wrong = contradict(right, target.vocab_size)](const auto& task, auto path) {
          std::mt19937 noise(
              static_cast<std::uint32_t>(1000 * task.request.value + task.tokens.size() + path.size()));
          return noise() % 10 < 7 ? right(task, path) : wrong(task, path);
        });
  if (name == "tree") return make_tree_drafter(name, right, 3, target.vocab_size, std::move(num_wanted));
  if (name == "twins") return make_twin_drafter(name, right, target.vocab_size);
  if (name == "ngram")
    return speculation::drafter_registry::with_built_in().make({.options = options_of(name, name)}).value();
  if (name == "feature") return make_feature_drafter(name, same);
  speculation::drafter_parts parts;
  parts.options = options_of(name, name == "ngram_tree" ? "ngram" : name);
  // The text is mostly noise, in which long runs rarely occur twice.
  parts.options.ngram_min = name == "nasd" ? 2 : 1;
  parts.options.candidates = name == "ngram_tree" ? 3 : 1;
  parts.options.min_probability = 0;
  parts.target_vocab_size = target.vocab_size;
  constexpr std::string_view without_model[] = {"ngram_tree", "suffix", "prediction", "forced",
                                                "unigram",    "bigram", "copy",       "random",
                                                "synthetic",  "nasd",   "lookahead"};
  if (std::ranges::find(without_model, name) == std::end(without_model))
    parts = model_drafter_parts(name, target);
  return speculation::drafter_registry::with_built_in().make(parts).value();
}

/// A drafter whose drafting takes virtual time: `cost` for each level, and `cost_each` for each request.
class slow_drafter final : public speculation::drafter {
 public:
  slow_drafter(std::unique_ptr<speculation::drafter> inner, virtual_clock*& time,
               std::chrono::nanoseconds cost, std::chrono::nanoseconds cost_each = {})
      : inner_(std::move(inner)), time_(time), cost_(cost), cost_each_(cost_each) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id r) override { return inner_->open(r); }
  const model::kv_model* own_model() const noexcept override { return inner_->own_model(); }
  std::uint32_t max_nodes(std::uint32_t length) const noexcept override { return inner_->max_nodes(length); }
  std::uint32_t own_positions(std::uint32_t length) const noexcept override {
    return inner_->own_positions(length);
  }
  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    std::uint32_t num_levels = 0;
    for (const auto& task : tasks) num_levels = std::max(num_levels, task.draft_length);
    inner_->propose(ops, kv, tasks);
    time_->spend((cost_ + cost_each_ * tasks.size()) * num_levels);
  }

 private:
  std::unique_ptr<speculation::drafter> inner_;
  virtual_clock*& time_;
  std::chrono::nanoseconds cost_;
  std::chrono::nanoseconds cost_each_;
};

} // namespace paceline::test
