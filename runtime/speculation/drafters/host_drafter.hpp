#pragma once

#include "runtime/base/check.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <memory>
#include <span>
#include <utility>

namespace paceline::speculation {

/// What drafters of host code share: traits from options, a `Session` a request, one task at a time. A
/// deriving class writes `open` and `draft_one`; the draft that one gets is empty and has the right base.
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

/// "drafter "lookup": " in front of what is wrong with an option.
inline error bad_option(const config::drafter_options& options, const std::string& rule) {
  return {errc::invalid_argument, "drafter \"" + options.name + "\": " + rule};
}

} // namespace paceline::speculation
