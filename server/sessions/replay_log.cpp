#include "server/sessions/replay_log.hpp"

#include "server/sessions/conversation_store.hpp"

#include <algorithm>
#include <utility>

namespace paceline::server {

namespace {

/// Bytes that a log may hold for its reader even if memory is short.
constexpr std::size_t least_untaken_bytes = 64U << 10U;

} // namespace

void replay_log::keep_in(std::shared_ptr<kept_memory> memory, std::shared_ptr<kept_memory::claim> claim) {
  memory_ = std::move(memory);
  claim_ = std::move(claim);
}

void replay_log::count() {
  if (claim_) claim_->resize(num_bytes_ + result_bytes_);
}

void replay_log::make_room() {
  if (!memory_) return;
  const bool fits = memory_->make_room();
  std::lock_guard lock(mutex_);
  memory_is_short_ = !fits;
  if (fits) return;
  drop_taken();
  count();
}

void replay_log::append(const wire::response_event& event) {
  num_bytes_ += event.num_bytes();
  untaken_bytes_ += event.num_bytes();
  events_.push_back(event);
}

void replay_log::on_event(const wire::response_event& event) {
  notification notify;
  {
    std::lock_guard lock(mutex_);
    append(event);
    skip_unawaited();
    count();
    if (awaits_events_) notify = notify_reader_;
  }
  make_room();
  if (notify) notify();
}

void replay_log::on_end(const std::vector<wire::response_event>& closing, const finished_response& finished) {
  notification notify;
  auto kept = std::make_shared<const finished_response>(finished);
  {
    std::lock_guard lock(mutex_);
    for (const auto& event : closing) append(event);
    skip_unawaited();
    finished_ = std::move(kept);
    result_bytes_ = finished_->object.num_bytes() + bytes_of(finished_->conversation);
    count();
    notify = notify_reader_;
  }
  make_room();
  if (notify) notify();
}

bool replay_log::congested() const {
  std::lock_guard lock(mutex_);
  return is_congested();
}

bool replay_log::is_congested() const {
  const auto bound = max_bytes_ / 2;
  return untaken_bytes_ > (memory_is_short_ ? std::min(bound, least_untaken_bytes) : bound);
}

void replay_log::on_room(notification notify) {
  std::lock_guard lock(mutex_);
  notify_writer_ = std::move(notify);
}

std::optional<std::uint64_t> replay_log::attach(const replay_start& start, notification notify) {
  notification replaced, room;
  std::uint64_t reader = 0;
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return std::nullopt;
    auto first = first_sequence_;
    const auto end = first_sequence_ + events_.size();
    if (start.only_result) {
      first = end;
    } else if (start.after_sequence) {
      first = *start.after_sequence + 1;
    } else if (start.next_token.value_or(0) > 0) {
      const auto known = after_token(*start.next_token);
      if (!known) return std::nullopt;
      first = *known;
    } else {
      first = 0;
    }
    if (first < first_sequence_ || first > end) return std::nullopt;
    if (claim_ && !claim_->wake()) return std::nullopt; // it is about to be dropped
    const bool was_congested = is_congested();
    awaits_events_ = !start.only_result;
    next_sequence_ = first;
    untaken_bytes_ = 0;
    for (auto i = first - first_sequence_; i < events_.size(); ++i) untaken_bytes_ += events_[i].num_bytes();
    reader = ++reader_;
    unread_since_.reset();
    replaced = std::exchange(notify_reader_, std::move(notify));
    if (was_congested && !is_congested()) room = notify_writer_;
  }
  if (replaced) replaced();
  if (room) room();
  return reader;
}

std::optional<std::uint64_t> replay_log::after_token(std::uint32_t next_token) const {
  const auto is_delta = [](const wire::response_event& event) {
    constexpr std::string_view ending = ".delta";
    return event.type.size() > ending.size() &&
           event.type.compare(event.type.size() - ending.size(), ending.size(), ending) == 0;
  };
  std::optional<std::uint64_t> after;       // after the last delta that the reader has seen completely
  std::optional<std::uint64_t> first_delta; // a reader inside the first delta gets it again
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (!is_delta(events_[i])) continue;
    if (!first_delta) first_delta = first_sequence_ + i;
    if (events_[i].end_token <= next_token) after = first_sequence_ + i + 1;
  }
  if (after) return after;
  if (first_sequence_ > 0) return std::nullopt;
  return first_delta.value_or(events_.size());
}

void replay_log::detach(std::uint64_t reader, time_point now) {
  notification room;
  {
    std::lock_guard lock(mutex_);
    if (reader != reader_) return;
    notify_reader_ = nullptr;
    unread_since_ = now;
    const bool was_congested = is_congested();
    awaits_events_ = is_streamed_;
    skip_unawaited();
    count();
    if (claim_) claim_->rest();
    if (was_congested && !is_congested()) room = notify_writer_;
  }
  if (room) room();
}

replay_log::batch replay_log::take(std::uint64_t reader, std::size_t max_bytes) {
  batch out;
  notification notify;
  {
    std::lock_guard lock(mutex_);
    if (reader != reader_) {
      out.replaced = true;
      return out;
    }
    const bool was_congested = is_congested();
    std::size_t bytes = 0;
    const auto end = first_sequence_ + events_.size();
    while (next_sequence_ < end && (bytes == 0 || bytes < max_bytes)) {
      const auto& event = events_[next_sequence_++ - first_sequence_];
      bytes += event.num_bytes();
      untaken_bytes_ -= event.num_bytes();
      out.events.push_back(event);
    }
    out.finished = finished_ != nullptr && next_sequence_ == end;
    drop_taken();
    count();
    if (was_congested && !is_congested()) notify = notify_writer_;
  }
  if (notify) notify();
  return out;
}

void replay_log::skip_unawaited() {
  if (awaits_events_) return;
  next_sequence_ = first_sequence_ + events_.size();
  untaken_bytes_ = 0;
  drop_taken();
}

void replay_log::drop_taken() {
  const auto bound = memory_is_short_ ? 0 : max_bytes_;
  while (num_bytes_ > bound && first_sequence_ < next_sequence_) {
    num_bytes_ -= events_.front().num_bytes();
    events_.pop_front();
    ++first_sequence_;
  }
}

std::shared_ptr<const finished_response> replay_log::result() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

bool replay_log::close_if_unread(time_point deadline) {
  std::lock_guard lock(mutex_);
  if (unread_since_ && *unread_since_ <= deadline) is_closed_ = true;
  return is_closed_;
}

} // namespace paceline::server
