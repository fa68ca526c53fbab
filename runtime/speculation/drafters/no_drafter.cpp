#include "runtime/speculation/drafters/no_drafter.hpp"

namespace paceline::speculation {

namespace {

class no_drafter final : public drafter {
 public:
  explicit no_drafter(const drafter_parts& parts) {
    traits_.name = parts.options.name;
    traits_.default_draft_length = 0;
  }

  const drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<drafter_session>(); }
  void propose(device::ops&, model::kv_storage*, std::span<draft_task> tasks) override {
    for (draft_task& task : tasks)
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
  }

 private:
  drafter_traits traits_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_no_drafter(const drafter_parts& parts) {
  return std::unique_ptr<drafter>(std::make_unique<no_drafter>(parts));
}

} // namespace paceline::speculation
