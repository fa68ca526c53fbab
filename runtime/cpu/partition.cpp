#include "runtime/cpu/partition.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/spin_wait.hpp"

#include <algorithm>
#include <optional>

namespace paceline::cpu {

namespace {

/// One submission. `after` stays until the work is taken, for its failures.
struct queued_work {
  std::string label;
  std::vector<device::fence> after;
  device::program work;
  std::shared_ptr<device::fence::state> done;
  std::uint64_t order = 0;   ///< over all streams of the partition
  std::size_t num_unmet = 0; ///< fences in `after` that have not passed, plus one while it is being submitted
};

struct stream_queue {
  stream_priority priority = stream_priority::normal;
  std::deque<std::shared_ptr<queued_work>> waiting; ///< oldest first
  std::uint32_t num_running = 0;                    ///< taken, and not told to be complete
  std::uint64_t num_submitted = 0;
  std::atomic<std::uint64_t> num_completed{0};
};

error failure_of_dependency(const queued_work& item, const error& cause) {
  return error(cause).within("not run, for what it waited for failed: " + item.label);
}

/// Runs `item`, whose fences have all passed, unless one of them failed.
std::optional<error> run_item(const queued_work& item, device::ops& ops) {
  for (const auto& fence : item.after)
    if (auto failure = fence.failure()) return failure_of_dependency(item, *failure);
  try {
    item.work(ops);
    return std::nullopt;
  } catch (const std::exception& e) {
    return error(errc::internal, item.label + ": " + e.what());
  } catch (...) {
    return error(errc::internal, item.label + ": exception of unknown type");
  }
}

} // namespace

/// The queues of a partition's streams. Shared with the fences that queued work waits for: one may pass, on
/// any thread, while the partition goes away.
class partition::queue_set : public std::enable_shared_from_this<partition::queue_set> {
 public:
  std::shared_ptr<stream_queue> open(stream_priority priority) {
    auto queue = std::make_shared<stream_queue>();
    queue->priority = priority;
    std::lock_guard lock(mutex_);
    queues_.push_back(queue);
    return queue;
  }

  /// Waits until all work of `queue` is complete, then forgets it.
  void close(const std::shared_ptr<stream_queue>& queue) {
    std::unique_lock lock(mutex_);
    drained_.wait(lock, [&] { return queue->waiting.empty() && queue->num_running == 0; });
    std::erase(queues_, queue);
  }

  void push(stream_queue& queue, std::shared_ptr<queued_work> item) {
    item->num_unmet = item->after.size() + 1;
    const std::vector<device::fence> after =
        item->after; // the item may be taken, and end, before the loop below does
    {
      std::lock_guard lock(mutex_);
      item->order = ++num_pushed_;
      ++queue.num_submitted;
      queue.waiting.push_back(item);
    }
    for (const auto& fence : after)
      fence.when_passed([self = shared_from_this(), item] { self->meet(*item); });
    meet(*item);
  }

  std::uint64_t num_submitted(const stream_queue& queue) const {
    std::lock_guard lock(mutex_);
    return queue.num_submitted;
  }

  /// The next work to run, or none once the partition stops. Waits awake for `idle_spin`, then parks.
  std::shared_ptr<queued_work> take(std::chrono::microseconds idle_spin,
                                    std::shared_ptr<stream_queue>& from) {
    for (;;) {
      const std::uint64_t seen = num_signals_.load(std::memory_order_acquire);
      {
        std::lock_guard lock(mutex_);
        if (auto item = take_ready(from)) return item;
        if (stopping_) return nullptr;
      }
      const auto signalled = [&] { return num_signals_.load(std::memory_order_acquire) != seen; };
      if (spin_until(idle_spin, signalled)) continue;
      std::unique_lock lock(mutex_);
      ready_.wait(lock, signalled);
    }
  }

  /// The next work to run if there is some whatever the end of the work before makes ready: none when the
  /// oldest of a stream waits for a fence, which may be that one's.
  std::shared_ptr<queued_work> take_at_once(std::shared_ptr<stream_queue>& from) {
    std::lock_guard lock(mutex_);
    for (const auto& queue : queues_)
      if (!queue->waiting.empty() && queue->waiting.front()->num_unmet > 0) return nullptr;
    return take_ready(from);
  }

  /// Called once work of `queue` has run, in the order it did.
  void complete(stream_queue& queue, queued_work& item, std::optional<error> failure) {
    queue.num_completed.fetch_add(1, std::memory_order_release);
    item.work = nullptr; // what the program holds is released before anyone hears of its end
    item.done->pass(std::move(failure));
    std::lock_guard lock(mutex_);
    --queue.num_running;
    drained_.notify_all();
  }

  void stop() {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    signal();
  }

 private:
  void meet(queued_work& item) {
    std::lock_guard lock(mutex_);
    if (--item.num_unmet == 0) signal();
  }

  /// The lock is held.
  void signal() {
    num_signals_.fetch_add(1, std::memory_order_release);
    ready_.notify_one();
  }

  /// The lock is held.
  std::shared_ptr<queued_work> take_ready(std::shared_ptr<stream_queue>& from) {
    const std::shared_ptr<stream_queue>* best = nullptr;
    for (const auto& queue : queues_) {
      if (queue->waiting.empty() || queue->waiting.front()->num_unmet > 0) continue;
      if (best == nullptr || runs_before(*queue, **best)) best = &queue;
    }
    if (best == nullptr) return nullptr;
    from = *best;
    auto item = std::move(from->waiting.front());
    from->waiting.pop_front();
    ++from->num_running;
    return item;
  }

  static bool runs_before(const stream_queue& a, const stream_queue& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.waiting.front()->order < b.waiting.front()->order;
  }

  mutable std::mutex mutex_;
  std::condition_variable ready_;   ///< the executor waits for it
  std::condition_variable drained_; ///< streams being destroyed wait for it
  std::vector<std::shared_ptr<stream_queue>> queues_;
  std::uint64_t num_pushed_ = 0;
  std::atomic<std::uint64_t> num_signals_{0};
  bool stopping_ = false;
};

class partition::queued_stream final : public device::stream {
 public:
  queued_stream(std::shared_ptr<queue_set> queues, std::string name, stream_priority priority)
      : queues_(std::move(queues)), name_(std::move(name)), queue_(queues_->open(priority)) {}
  ~queued_stream() override { queues_->close(queue_); }

  device::fence submit(std::string_view label, std::vector<device::fence> after,
                       device::program work) override {
    PACELINE_CHECK(work != nullptr, "submission " + std::string(label) + " has no program");
    auto item = std::make_shared<queued_work>();
    item->label = name_ + "/" + std::string(label);
    item->after = std::move(after);
    item->work = std::move(work);
    item->done = std::make_shared<device::fence::state>();
    device::fence done(item->done);
    queues_->push(*queue_, std::move(item));
    return done;
  }

  const std::string& name() const noexcept override { return name_; }
  std::uint64_t completed() const noexcept override {
    return queue_->num_completed.load(std::memory_order_acquire);
  }
  std::uint64_t submitted() const noexcept override { return queues_->num_submitted(*queue_); }

 private:
  const std::shared_ptr<queue_set> queues_;
  const std::string name_;
  const std::shared_ptr<stream_queue> queue_;
};

namespace {

thread_team::options team_options(const partition_options& opts) {
  thread_team::options team;
  team.num_threads = opts.num_threads;
  team.spin = opts.spin;
  if (!opts.cpus.empty()) team.cpus.assign(opts.cpus.begin() + 1, opts.cpus.end());
  return team;
}

} // namespace

/// Work that has run and whose fence has not passed yet.
struct partition::ended_work {
  std::shared_ptr<stream_queue> queue;
  std::shared_ptr<queued_work> item;
  std::optional<error> failure;
};

partition::partition(const partition_options& opts, kernel_level level)
    : idle_spin_(opts.idle_spin),
      executor_cpu_(opts.cpus.empty() ? std::nullopt : std::optional(opts.cpus.front())),
      team_(team_options(opts)), ops_(team_, level), queues_(std::make_shared<queue_set>()),
      ended_(std::make_unique<ended_work>()), executor_([this] { execute(); }) {}

partition::~partition() {
  queues_->stop();
  executor_.join();
}

std::unique_ptr<device::stream> partition::make_stream(std::string name, stream_priority priority) {
  return std::make_unique<queued_stream>(queues_, std::move(name), priority);
}

void partition::execute() {
  if (executor_cpu_) pin_this_thread(*executor_cpu_);
  std::shared_ptr<stream_queue> from;
  auto item = queues_->take(idle_spin_, from);
  while (item) {
    auto failure = run_item(*item, ops_);
    team_.finish_errand(); // ends are told in order
    *ended_ = {from, std::move(item), std::move(failure)};
    // To tell of an end means to wake threads, which takes tens of microseconds, and this core where there is
    // no idle one. If the next work does not depend on it, a team member tells while this thread goes on.
    item = team_.size() > 1 ? queues_->take_at_once(from) : nullptr;
    const auto tell = [](void* self) noexcept { static_cast<partition*>(self)->tell_end(); };
    if (!item || !team_.leave_errand(tell, this)) tell_end();
    if (!item) item = queues_->take(idle_spin_, from);
  }
  team_.finish_errand();
}

void partition::tell_end() noexcept {
  queues_->complete(*ended_->queue, *ended_->item, std::move(ended_->failure));
  *ended_ = {};
}

} // namespace paceline::cpu
