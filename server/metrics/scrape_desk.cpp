#include "server/metrics/scrape_desk.hpp"

#include <utility>

namespace paceline::server {

bool scrape_desk::ask(std::function<void(const text&)> answer) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(answer));
    if (std::exchange(serving_, true)) return true;
  }
  if (jobs_.submit([self = shared_from_this()] { self->serve(); }, {})) return true;
  std::vector<std::function<void(const text&)>> asked;
  {
    std::lock_guard lock(mutex_);
    serving_ = false;
    asked.swap(waiting_);
  }
  // The first one is this call's own. The others were asked meanwhile and rely on the job.
  for (std::size_t i = 1; i < asked.size(); ++i) asked[i](nullptr);
  return false;
}

void scrape_desk::serve() {
  for (;;) {
    std::vector<std::function<void(const text&)>> asked;
    {
      std::lock_guard lock(mutex_);
      asked.swap(waiting_);
      if (asked.empty()) {
        serving_ = false;
        return;
      }
    }
    const auto made = std::make_shared<const std::string>(make_text_());
    for (const auto& answer : asked) answer(made);
  }
}

} // namespace paceline::server
