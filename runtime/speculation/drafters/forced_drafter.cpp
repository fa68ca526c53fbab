#include "runtime/speculation/drafters/forced_drafter.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/path_tree.hpp"

#include <vector>

namespace paceline::speculation {

namespace {

/// Only the division into tokens is uncertain.
constexpr std::uint8_t signal_of_a_forced_token = 7;

struct forced_session final : drafter_session {};

class forced_drafter final : public host_drafter<forced_session> {
 public:
  explicit forced_drafter(const config::drafter_options& options) : host_drafter(options) {
    traits_.first_acceptance[signal_of_a_forced_token] = 0.95F;
  }

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<forced_session>(); }

 private:
  void draft_one(const draft_task& task, forced_session&, draft& result) override {
    if (task.constraint == nullptr) return;
    std::vector<token_id> forced;
    task.constraint->append_forced(task.output(), task.draft_length, forced);
    add_path(result.tree, forced, chain_length(task));
    result.signals.assign(result.tree.size(), signal_of_a_forced_token);
  }
};

} // namespace

expected<std::unique_ptr<drafter>> make_forced_drafter(const drafter_parts& parts) {
  return std::unique_ptr<drafter>(std::make_unique<forced_drafter>(parts.options));
}

} // namespace paceline::speculation
