#include "server/metrics/stream_board.hpp"

#include <utility>

namespace paceline::server {

stream_board::entry stream_board::add(std::string model, std::uint32_t prompt_tokens,
                                      running_stream::time_point arrival) {
  auto made = std::make_shared<running_stream>();
  made->model = std::move(model);
  made->prompt_tokens = prompt_tokens;
  made->arrival = arrival;
  std::lock_guard lock(mutex_);
  numbers_.emplace(made.get(), next_);
  by_age_.emplace(next_++, made);
  return made;
}

void stream_board::remove(const entry& ended) {
  std::lock_guard lock(mutex_);
  const auto found = numbers_.find(ended.get());
  if (found == numbers_.end()) return;
  by_age_.erase(found->second);
  numbers_.erase(found);
}

std::size_t stream_board::size() const {
  std::lock_guard lock(mutex_);
  return by_age_.size();
}

std::vector<stream_board::entry> stream_board::oldest(std::size_t most) const {
  std::lock_guard lock(mutex_);
  std::vector<entry> out;
  for (const auto& [age, stream] : by_age_) {
    if (out.size() == most) break;
    out.push_back(stream);
  }
  return out;
}

} // namespace paceline::server
