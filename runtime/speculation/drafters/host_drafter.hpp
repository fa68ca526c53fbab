#pragma once

#include "runtime/base/check.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <memory>
#include <span>
#include <utility>

namespace paceline::speculation {

/// Base of drafters that run as host code. It has traits from options and one `Session` for each request, and
/// handles one task at a time. A derived class implements `open` and `draft_one`, which gets an empty draft
/// whose base length is set.
template <class Session>
class host_drafter : public drafter {
 public:
  const drafter_traits& traits() const noexcept override { return traits_; }

  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (draft_task& task : tasks) {
      auto* const session = dynamic_cast<Session*>(task.session);
      PACELINE_CHECK(session != nullptr, "drafter " + traits_.name + " needs a session of its own");
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      if (!task.tokens.empty() && task.draft_length > 0) draft_one(task, *session, task.result);
      task.result.plan = {chain_length(task), chain_length(task)}; // sampled drafts of host code are chains
    }
  }

 protected:
  explicit host_drafter(const config::drafter_options& options) {
    traits_.name = options.name;
    traits_.default_draft_length = options.draft_length;
  }

  virtual void draft_one(const draft_task& task, Session& session, draft& result) = 0;

  drafter_traits traits_;
};

inline constexpr std::uint32_t longest_ngram = 32;

/// Checks `least` <= `ngram_min` <= `ngram_max` <= 32.
inline expected<void> check_ngram_lengths(const config::drafter_options& options, std::uint32_t least) {
  const std::string longest = std::to_string(longest_ngram);
  if (options.ngram_min < least || options.ngram_min > longest_ngram)
    return bad_option(options, "ngram_min = " + std::to_string(options.ngram_min) + ", must be " +
                                   std::to_string(least) + " to " + longest);
  if (options.ngram_max < options.ngram_min || options.ngram_max > longest_ngram)
    return bad_option(options, "ngram_max = " + std::to_string(options.ngram_max) +
                                   ", must be ngram_min to " + longest);
  return {};
}

} // namespace paceline::speculation
