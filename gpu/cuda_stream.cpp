#include "gpu/cuda_stream.hpp"

#include "gpu/cuda_fence.hpp"
#include "gpu/cuda_ops.hpp"
#include "runtime/base/check.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace paceline::gpu {
namespace {

/// One submission.
struct submission {
  std::string label;
  std::vector<device::fence> after;
  device::program work;
  std::shared_ptr<cuda_fence> done;
  /// Number of fences in `after` that do not allow its host code to begin yet, plus one while it is being
  /// submitted.
  std::size_t num_unmet = 0;
};

/// A program that has been issued.
struct issued_work {
  std::shared_ptr<cuda_fence> done;
  std::string label;
  std::vector<device::fence> after;
  std::optional<error> failure; ///< of the program itself
  /// Null if the device has completed all of it, or if the event could not be recorded.
  std::shared_ptr<event> end;
  std::vector<std::unique_ptr<mirrored_pool::slab>> slabs; ///< used by its copies
};

/// Shared by the stream's threads and the fences it waits for: a fence may pass while the stream is
/// destroyed.
class work_queue : public std::enable_shared_from_this<work_queue> {
 public:
  /// `on` is the stream's device. Fences of the same device need not have passed.
  void push(std::shared_ptr<submission> item, const device_context& on) {
    const std::vector<device::fence> after = item->after; // the item may end before the loop below does
    item->num_unmet = after.size() + 1;
    {
      std::lock_guard lock(mutex_);
      ++num_submitted_;
      waiting_.push_back(item);
    }
    for (const auto& fence : after) {
      auto once = [self = shared_from_this(), item, met = std::make_shared<std::atomic_flag>()] {
        if (!met->test_and_set()) self->meet(*item);
      };
      if (const auto own = cuda_fence::of(fence, on)) own->when_issued(once);
      fence.when_passed(std::move(once));
    }
    meet(*item);
  }

  /// The next program to issue, or none once the stream ends.
  std::shared_ptr<submission> take_ready() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || (!waiting_.empty() && waiting_.front()->num_unmet == 0); });
    if (waiting_.empty()) return nullptr;
    auto item = std::move(waiting_.front());
    waiting_.pop_front();
    return item;
  }

  /// Whether all programs have been reported complete except the one taken last.
  bool all_others_told() const {
    std::lock_guard lock(mutex_);
    return num_told_ + 1 + waiting_.size() == num_submitted_;
  }

  void push_issued(issued_work work) {
    std::lock_guard lock(mutex_);
    issued_.push_back(std::move(work));
    changed_.notify_all();
  }

  /// The oldest program that has been issued but not completed, or none once the stream ends.
  std::optional<issued_work> take_issued() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !issued_.empty(); });
    if (issued_.empty()) return std::nullopt;
    auto work = std::move(issued_.front());
    issued_.pop_front();
    return work;
  }

  void count_completed() { num_completed_.fetch_add(1, std::memory_order_release); }
  /// Called when the fence of the last counted program has passed.
  void count_told() {
    std::lock_guard lock(mutex_);
    ++num_told_;
    changed_.notify_all();
  }

  /// Waits until every submission is complete and reported, then ends the loops of both threads.
  void end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_told_ == num_submitted_; });
    ending_ = true;
    changed_.notify_all();
  }

  std::uint64_t num_completed() const noexcept { return num_completed_.load(std::memory_order_acquire); }
  std::uint64_t num_submitted() const {
    std::lock_guard lock(mutex_);
    return num_submitted_;
  }

 private:
  void meet(submission& item) {
    std::lock_guard lock(mutex_);
    if (--item.num_unmet == 0) changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<submission>> waiting_; ///< oldest first
  std::deque<issued_work> issued_;                  ///< oldest first
  std::uint64_t num_submitted_ = 0;
  std::uint64_t num_told_ = 0;
  std::atomic<std::uint64_t> num_completed_{0};
  bool ending_ = false;
};

class cuda_stream final : public device::stream {
 public:
  cuda_stream(const device_context& on, std::string name, device::stream_priority priority)
      : on_(on), name_(std::move(name)), commands_(on, urgency_of(priority)), memory_(on),
        ops_(commands_, memory_) {
    issuer_ = std::thread([this] { issue(); });
    try {
      completer_ = std::thread([this] { complete_issued(); });
    } catch (...) {
      queue_->end();
      issuer_.join();
      throw;
    }
  }

  ~cuda_stream() override {
    queue_->end();
    issuer_.join();
    completer_.join();
  }

  device::fence submit(std::string_view label, std::vector<device::fence> after,
                       device::program work) override {
    PACELINE_CHECK(work != nullptr, "submission " + std::string(label) + " has no program");
    auto item = std::make_shared<submission>();
    item->label = name_ + "/" + std::string(label);
    item->after = std::move(after);
    item->work = std::move(work);
    item->done = std::make_shared<cuda_fence>(on_);
    device::fence done(item->done);
    queue_->push(std::move(item), on_);
    return done;
  }

  const std::string& name() const noexcept override { return name_; }
  std::uint64_t completed() const noexcept override { return queue_->num_completed(); }
  std::uint64_t submitted() const noexcept override { return queue_->num_submitted(); }

 private:
  static int urgency_of(device::stream_priority priority) {
    return priority == device::stream_priority::low ? 0 : 1;
  }

  /// Runs a program whose fences have passed or, on this device, have been issued, unless one of them failed.
  std::optional<error> run(const submission& item) {
    for (const auto& fence : item.after)
      if (auto failure = fence.failure())
        return error(*failure).within("not run, for what it waited for failed: " + item.label);
    ops_.begin_program();
    try {
      for (const auto& fence : item.after)
        if (const auto own = cuda_fence::of(fence, on_)) own->hold(commands_);
      item.work(ops_);
      ops_.issue();
      return std::nullopt;
    } catch (const cuda_failure& e) {
      return error(e.error()).within(item.label);
    } catch (const std::exception& e) {
      return error(errc::internal, item.label + ": " + e.what());
    } catch (...) {
      return error(errc::internal, item.label + ": exception of unknown type");
    }
  }

  void issue() {
    while (auto item = queue_->take_ready()) {
      on_.api.use(on_.index); // the previous program may have selected another; if this fails, so does
                              // everything after it
      issued_work work;
      work.failure = run(*item);
      work.slabs = ops_.forget_sent();
      work.done = std::move(item->done);
      work.label = item->label;
      work.after = std::move(item->after);
      const bool is_done = ops_.is_done();
      item->work = nullptr; // frees what the program holds before anyone learns of its end
      try {
        if (!is_done) {
          work.end = std::make_shared<event>(on_);
          work.end->record(commands_);
        }
      } catch (const cuda_failure& e) {
        work.end = nullptr;
        note(work.failure, e.error(), item->label);
      }
      item = nullptr;
      if (!work.failure) work.done->issue(work.end);
      if (is_done && queue_->all_others_told())
        complete(work); // no thread is woken for it
      else
        queue_->push_issued(std::move(work));
    }
  }

  void complete_issued() {
    on_.api.use(on_.index);
    while (auto work = queue_->take_issued()) complete(*work);
  }

  /// Completes programs in the order of issue. The completer calls this, or the issuer if the completer is
  /// idle.
  void complete(issued_work& work) {
    try {
      if (work.end) work.end->wait();
    } catch (const cuda_failure& e) {
      note(work.failure, e.error(), name_);
    }
    if (work.end) memory_.give_back(std::move(work.slabs));
    work.slabs.clear(); // without an event, after a failure: freeing waits for the end
    work.done->forget_end();
    work.end = nullptr;
    for (const auto& fence : work.after) { // the device has passed them, but other threads may not know yet
      fence.wait();
      if (auto failure = fence.failure(); failure && !work.failure)
        work.failure = error(*failure).within("what it waited for failed: " + work.label);
    }
    queue_->count_completed();
    work.done->pass(std::move(work.failure));
    queue_->count_told();
  }

  /// A lost device replaces any other error of a program, as its cause.
  static void note(std::optional<error>& failure, const error& cause, const std::string& where) {
    if (!failure || cause.code() == errc::device_lost) failure = error(cause).within(where);
  }

  const device_context& on_;
  const std::string name_;
  command_queue commands_;
  mirrored_pool memory_;
  cuda_ops ops_; ///< used by the issuer only
  const std::shared_ptr<work_queue> queue_ = std::make_shared<work_queue>();
  std::thread issuer_;
  std::thread completer_;
};

} // namespace

std::unique_ptr<device::stream> make_cuda_stream(const device_context& on, std::string name,
                                                 device::stream_priority priority) {
  return std::make_unique<cuda_stream>(on, std::move(name), priority);
}

} // namespace paceline::gpu
