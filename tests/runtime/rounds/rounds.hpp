#pragma once

#include "runtime/model/hash_model.hpp"
#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/round_runner.hpp"
#include "tests/support/draft_tasks.hpp"
#include "tests/support/simulated_device.hpp"
#include "tests/support/small_target.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::rounds::test_support {

using namespace scheduling;

/// Makes passes take virtual time, and replaces logits by NaN on demand.
class metered_model final : public model::language_model {
 public:
  using cost = std::function<std::chrono::nanoseconds(std::size_t rows)>;
  metered_model(const model::hash_model_config& config, test::virtual_clock& time, cost of_pass)
      : inner_(config), time_(&time), cost_(std::move(of_pass)) {}
  const model::hash_model& inner() const noexcept { return inner_; }
  const model::model_info& info() const noexcept override { return inner_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return inner_.make_kv_storage(blocks, size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    inner_.forward(ops, batch, kv, outputs);
    const auto vocab_size = info().vocab_size;
    for (std::size_t i = 0; i < outputs.logit_rows.size(); ++i)
      if (batch.rows[outputs.logit_rows[i]].position == without_logits)
        std::ranges::fill(outputs.logits.subspan(i * vocab_size, vocab_size),
                          std::numeric_limits<float>::quiet_NaN());
    time_->spend(cost_(batch.rows.size()));
  }
  std::optional<token_position> without_logits; ///< position of rows whose logits are NaN

 private:
  model::hash_model inner_;
  test::virtual_clock* time_;
  cost cost_;
};

/// Rounds without scheduler, pool and actors: every request has its memory from the start and takes part in
/// each round. Drafters are in-line or in-pass ones, numbered from 1, followed by "auto".
class lone_rounds {
 public:
  lone_rounds(const model::hash_model_config& config, metered_model::cost cost,
              std::vector<std::unique_ptr<speculation::drafter>> drafters)
      : drafters_(std::move(drafters)), target_(config, time_, std::move(cost)) {
    round_resources resources{&target_, nullptr, {nullptr}, config.context_length, &time_, {}};
    for (const auto& one : drafters_) resources.drafters.push_back(one.get());
    resources.automatic = automatic();
    resources.drafters.push_back(nullptr);
    num_blocks_ = (config.context_length + block_size - 1) / block_size;
    kv_ = target_.make_kv_storage(max_requests * num_blocks_, block_size);
    resources.kv = kv_.get();
    runner_ = std::make_unique<round_runner>(std::move(resources));
  }

  drafter_index automatic() const { return drafter_index{static_cast<std::uint32_t>(drafters_.size()) + 1}; }
  const model::hash_model& target() const { return target_.inner(); }
  void spoil_rows_at(token_position position) { target_.without_logits = position; }

  void submit(generation_request request, drafter_index drafter, std::uint32_t draft_length,
              std::unique_ptr<text_output> text = nullptr) {
    plan_item item;
    const auto number = static_cast<std::uint32_t>(plan_.items.size());
    const auto context = target_.info().context_length;
    item.request = admit(request_id{number + 1}, std::move(request), context, std::move(text), time_.now());
    for (std::uint32_t b = 0; b < num_blocks_; ++b) item.blocks.emplace_back(number * num_blocks_ + b);
    item.max_rows = item.request.terms->prompt_length();
    item.restart_at = 0;
    plan_.items.push_back(std::move(item));
    wanted_.push_back({drafter, draft_length});
  }

  /// Runs until all requests have ended. Returns the time it took; failures and refused drafts are counted in
  /// `num_wrong`.
  std::chrono::nanoseconds run() {
    test::no_ops ops;
    const auto begin = time_.now();
    for (bool open = true; open; ++plan_.round.value) {
      round_result result;
      runner_->run(ops, plan_, {}, result);
      time_.move_to(time_.now() + time_.take_spent());
      if (result.failure) ++num_wrong;
      for (const auto& done : result.items) {
        num_wrong += done.stale_draft ? 1 : 0;
        num_accepted += done.num_accepted;
      }
      num_failed_drafts += static_cast<std::uint32_t>(result.failed_drafters.size());
      std::ranges::move(result.events, std::back_inserter(events));
      open = false;
      for (std::size_t i = 0; i < plan_.items.size(); ++i) {
        auto& item = plan_.items[i];
        item.restart_at.reset();
        item.max_rows = 1;
        item.drafter = wanted_[i].drafter;
        item.draft_length = wanted_[i].length;
        item.max_nodes = max_nodes(item.drafter, item.draft_length);
        const bool failed = std::ranges::any_of(
            events, [&](const auto& e) { return e.request == item.request.id() && e.failure; });
        open = open || (item.request.log->finish() == finish_reason::none && !failed && !result.failure);
      }
    }
    return time_.now() - begin;
  }
  std::uint32_t num_wrong = 0;
  std::uint32_t num_accepted = 0;
  std::uint32_t num_failed_drafts = 0; ///< rounds in which a drafter failed
  test::virtual_clock& time() noexcept { return time_; }
  std::vector<token_event> events; ///< of all rounds

  const committed_log& request(std::size_t i) const { return *plan_.items.at(i).request.log; }
  /// Forgets the requests, which have ended.
  void forget() { plan_.items.clear(); }

 private:
  static constexpr std::uint32_t block_size = 16;
  static constexpr std::uint32_t max_requests = 4;
  struct wanted_draft {
    drafter_index drafter = plain_decoding;
    std::uint32_t length = 0;
  };

  std::uint32_t max_nodes(drafter_index drafter, std::uint32_t length) const {
    std::uint32_t most = length;
    for (drafter_index d{1}; d < automatic(); ++d.value)
      if (drafter == d || drafter == automatic())
        most = std::max(most, drafters_[d.value - 1]->max_nodes(length));
    return std::min(most, speculation::token_tree::max_nodes);
  }

  test::virtual_clock time_;
  std::vector<std::unique_ptr<speculation::drafter>> drafters_;
  metered_model target_;
  std::uint32_t num_blocks_ = 0;
  std::unique_ptr<model::kv_storage> kv_;
  std::unique_ptr<round_runner> runner_;
  round_plan plan_{round_id{1}, group_id{0}, {}};
  std::vector<wanted_draft> wanted_;
};

} // namespace paceline::rounds::test_support
