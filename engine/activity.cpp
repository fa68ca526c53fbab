#include "engine/activity.hpp"

#include <algorithm>

namespace paceline {

namespace {

class logged_stream final : public device::stream {
 public:
  logged_stream(std::unique_ptr<device::stream> inner, activity& log, activity::side who)
      : inner_(std::move(inner)), log_(&log), who_(who) {}

  device::fence submit(std::string_view label, std::vector<device::fence> after,
                       device::program work) override {
    auto traced = [log = log_, who = who_, label = std::string(label),
                   work = std::move(work)](device::ops& ops) { log->record(who, label, [&] { work(ops); }); };
    return inner_->submit(label, std::move(after), std::move(traced));
  }
  const std::string& name() const noexcept override { return inner_->name(); }
  std::uint64_t completed() const noexcept override { return inner_->completed(); }
  std::uint64_t submitted() const noexcept override { return inner_->submitted(); }

 private:
  std::unique_ptr<device::stream> inner_;
  activity* log_;
  activity::side who_;
};

} // namespace

void activity::account(time_point now) {
  const auto passed = now - since_;
  if (active_[0] > 0) sums_.target += passed;
  if (active_[1] > 0) sums_.draft += passed;
  if (active_[0] > 0 && active_[1] > 0) sums_.both += passed;
  since_ = now;
}

void activity::record(side who, std::string_view label, const std::function<void()>& work) {
  const auto index = static_cast<std::size_t>(who);
  const auto begin = time_->now();
  {
    std::lock_guard lock(mutex_);
    account(begin);
    ++active_[index];
  }
  // The end is recorded on every path, because a program may throw.
  struct end_of_work {
    activity* log;
    side who;
    std::string_view label;
    time_point begin;
    ~end_of_work() {
      const auto end = log->time_->now();
      std::lock_guard lock(log->mutex_);
      log->account(end);
      --log->active_[static_cast<std::size_t>(who)];
      if (log->spans_.size() < log->capacity_) {
        log->spans_.push_back({who, std::string(label), begin, end});
      } else {
        log->spans_[log->next_] = {who, std::string(label), begin, end};
        log->next_ = (log->next_ + 1) % log->capacity_;
      }
    }
  } guard{this, who, label, begin};
  work();
}

void activity::turn(side who, bool computes) {
  const auto now = time_->now();
  std::lock_guard lock(mutex_);
  account(now);
  active_[static_cast<std::size_t>(who)] += computes ? 1U : -1U;
}

activity::sums activity::totals() const {
  std::lock_guard lock(mutex_);
  return sums_;
}

std::vector<activity::span> activity::last_spans() const {
  std::lock_guard lock(mutex_);
  auto out = spans_;
  std::ranges::rotate(out, out.begin() + static_cast<std::ptrdiff_t>(next_));
  return out;
}

std::unique_ptr<device::stream> recorded_stream(device::compute_device& device, std::string name,
                                                std::uint32_t partition, device::stream_options options,
                                                activity& log, activity::side who) {
  options.on_turn = [to = &log, who](bool computes) { to->turn(who, computes); };
  return std::make_unique<logged_stream>(device.make_stream(std::move(name), partition, std::move(options)),
                                         log, who);
}

} // namespace paceline
