#include "runtime/cpu/partition.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/program_queues.hpp"

#include <optional>

namespace paceline::cpu {

namespace {

using std::chrono::nanoseconds;

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

thread_team::options team_options(const partition_options& opts) {
  thread_team::options team;
  team.num_threads = opts.num_threads;
  team.spin = opts.spin;
  if (!opts.cpus.empty()) team.cpus.assign(opts.cpus.begin() + 1, opts.cpus.end());
  return team;
}

} // namespace

class partition::queued_stream final : public device::stream {
 public:
  queued_stream(std::shared_ptr<program_queues> queues, std::string name, device::stream_options options)
      : queues_(std::move(queues)), name_(std::move(name)), queue_(queues_->open(std::move(options))) {}
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
  const std::shared_ptr<program_queues> queues_;
  const std::string name_;
  const std::shared_ptr<stream_queue> queue_;
};

/// Work that has begun.
struct partition::begun_program {
  stream_queue* from = nullptr;
  time_point since;       ///< computing since then; earlier time was charged to its tenant
  nanoseconds computed{}; ///< before `since`

  /// Returns the computing time since `since`, and sets `since` to `now`.
  nanoseconds advance_to(time_point now) {
    const nanoseconds step = now - since;
    computed += step;
    since = now;
    return step;
  }
};

/// Work that has ended and whose fence has not passed yet.
struct partition::ended_work {
  taken_work what;
  std::optional<error> failure;
};

partition::partition(const partition_options& opts, kernel_level level)
    : idle_spin_(opts.idle_spin),
      executor_cpu_(opts.cpus.empty() ? std::nullopt : std::optional(opts.cpus.front())), level_(level),
      team_(team_options(opts)), queues_(std::make_shared<program_queues>()),
      ended_(std::make_unique<ended_work>()) {
  team_.set_pause(
      queues_->others_wait(), [](void* self) { static_cast<partition*>(self)->stand_aside(); }, this);
  executor_ = std::thread([this] { execute(); });
}

partition::~partition() {
  queues_->stop();
  executor_.join();
}

std::unique_ptr<device::stream> partition::make_stream(std::string name, device::stream_options options) {
  return std::make_unique<queued_stream>(queues_, std::move(name), std::move(options));
}

void partition::execute() {
  if (executor_cpu_) pin_this_thread(*executor_cpu_);
  auto taken = queues_->take(idle_spin_);
  while (taken) {
    run(std::move(taken));
    // Reporting an end wakes threads, which takes tens of microseconds, and this core if no other is idle. If
    // the next work does not depend on it, a team member reports while this thread continues.
    taken = team_.size() > 1 ? queues_->take_at_once() : taken_work{};
    const auto tell = [](void* self) noexcept { static_cast<partition*>(self)->tell_end(); };
    if (!taken || !team_.leave_errand(tell, this)) tell_end();
    if (!taken) taken = queues_->take(idle_spin_);
  }
  team_.finish_errand();
}

/// Runs the work and leaves its end to be reported.
void partition::run(taken_work taken) {
  const auto depth = begun_.size();
  begun_.push_back({taken.from.get(), std::chrono::steady_clock::now(), {}});
  auto failure = run_item(*taken.item, ops_at(depth));
  auto& program = begun_.back();
  const auto step = program.advance_to(std::chrono::steady_clock::now());
  queues_->end(*program.from, step, program.computed);
  begun_.pop_back();
  team_.finish_errand(); // ends are reported in order
  *ended_ = {std::move(taken), std::move(failure)};
}

/// Called between two parallel loops of the running program.
void partition::stand_aside() {
  const auto depth = begun_.size() - 1;
  const auto begin = std::chrono::steady_clock::now();
  auto taken = queues_->take_before(begun_[depth].advance_to(begin));
  if (!taken) return;
  const auto& on_turn = begun_[depth].from->options.on_turn;
  if (on_turn) on_turn(false);
  while (taken) {
    run(std::move(taken));
    const auto tell = [](void* self) noexcept { static_cast<partition*>(self)->tell_end(); };
    if (!team_.leave_errand(tell, this)) tell_end();
    taken = queues_->take_before({});
  }
  const auto end = std::chrono::steady_clock::now();
  begun_[depth].since = end;
  ops_at(depth).add_time_aside(end - begin);
  if (on_turn) on_turn(true);
}

cpu_ops& partition::ops_at(std::size_t depth) {
  if (depth == ops_.size()) ops_.push_back(std::make_unique<cpu_ops>(team_, level_));
  return *ops_[depth];
}

void partition::tell_end() noexcept {
  queues_->complete(*ended_->what.from, *ended_->what.item, std::move(ended_->failure));
  *ended_ = {};
}

} // namespace paceline::cpu
