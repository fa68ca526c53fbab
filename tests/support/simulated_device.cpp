#include "tests/support/simulated_device.hpp"

#include <algorithm>
#include <exception>

namespace paceline::test {

namespace {

/// A hash model uses no ops.
class no_ops final : public device::ops {
 public:
  std::string_view level() const noexcept override { return "simulated"; }
};

} // namespace

class simulated_device::queued_stream final : public device::stream {
 public:
  explicit queued_stream(std::shared_ptr<queue> q) : queue_(std::move(q)) {}
  device::fence submit(std::string_view label, std::vector<device::fence> after,
                       device::program work) override {
    auto done = std::make_shared<device::fence::state>();
    queue_->jobs.push_back({std::string(label), std::move(after), std::move(work), done});
    ++queue_->submitted;
    return device::fence(done);
  }
  const std::string& name() const noexcept override { return queue_->name; }
  std::uint64_t completed() const noexcept override { return queue_->completed; }
  std::uint64_t submitted() const noexcept override { return queue_->submitted; }

 private:
  std::shared_ptr<queue> queue_;
};

simulated_device::simulated_device(std::uint32_t num_partitions) : num_partitions_(num_partitions) {}

std::unique_ptr<device::stream> simulated_device::make_stream(std::string name, std::uint32_t partition) {
  auto q = std::make_shared<queue>();
  q->name = std::move(name);
  q->partition = std::min(partition, num_partitions_ - 1);
  queues_.push_back(q);
  return std::make_unique<queued_stream>(std::move(q));
}

bool simulated_device::partition_free(std::uint32_t partition) const {
  return std::ranges::none_of(running_, [&](const auto& r) { return r.owner->partition == partition; });
}

void simulated_device::start_ready() {
  if (hung_) return;
  no_ops ops;
  for (auto& q : queues_) {
    if (q->jobs.empty() || !partition_free(q->partition)) continue;
    auto& head = q->jobs.front();
    if (!std::ranges::all_of(head.after, [](const auto& f) { return f.passed(); })) continue;
    auto job = std::move(head);
    q->jobs.pop_front();
    running r{q, job.done, std::nullopt, {}};
    for (const auto& f : job.after)
      if (auto failure = f.failure()) r.failure = failure;
    const auto begin = time_.now();
    if (!r.failure) {
      try {
        job.work(ops);
      } catch (const std::exception& e) {
        r.failure = error{errc::internal, e.what()};
      }
    }
    r.end = begin + time_.take_spent();
    spans_.push_back({q->name, job.label, begin, r.end});
    running_.push_back(std::move(r));
  }
}

std::size_t simulated_device::num_running() const { return hung_ ? 0 : running_.size(); }

void simulated_device::complete(std::size_t any) {
  auto r = std::move(running_.at(any));
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(any));
  time_.move_to(r.end);
  ++r.owner->completed;
  r.done->pass(std::move(r.failure));
}

void simulated_device::complete_earliest() {
  const auto it = std::ranges::min_element(running_, {}, &running::end);
  complete(static_cast<std::size_t>(it - running_.begin()));
}

} // namespace paceline::test
