#include "gpu/step_queue.hpp"

#include <algorithm>
#include <utility>

namespace paceline::gpu {
namespace {

/// Kernels get their parameters from here, so these have the alignment of any struct.
constexpr std::size_t params_alignment = alignof(std::max_align_t);

} // namespace

// ---- what a step is

bool step_queue::command::is_like(const command& other) const noexcept {
  if (what != other.what) return false;
  return what != command_kind::launch ||
         (kernel == other.kernel && shape == other.shape && num_bytes == other.num_bytes);
}

bool step_queue::command::copies_the_same(const command& other) const noexcept {
  return to == other.to && from == other.from && num_bytes == other.num_bytes;
}

bool step_queue::step::is_like(const step& other) const noexcept {
  return std::ranges::equal(commands, other.commands,
                            [](const command& a, const command& b) { return a.is_like(b); }) &&
         params.size() == other.params.size() &&
         (params.empty() || std::memcmp(params.data(), other.params.data(), params.size()) == 0);
}

launch_command step_queue::step::launch(std::size_t number) const noexcept {
  const command& c = commands[number];
  return {c.kernel, c.shape, params.data() + c.params_at, c.num_bytes, launch_start::at_end};
}

// ---- noting

void step_queue::copy_in(void* to, const void* from, std::size_t num_bytes) {
  if (num_bytes != 0) note({command_kind::copy_in, {}, {}, to, from, num_bytes, 0, false}, nullptr);
}

void step_queue::copy_out(void* to, const void* from, std::size_t num_bytes) {
  if (num_bytes != 0) note({command_kind::copy_out, {}, {}, to, from, num_bytes, 0, false}, nullptr);
}

void step_queue::note(command c, const void* params) {
  if (params != nullptr) {
    c.params_at = (noted_.params.size() + params_alignment - 1) / params_alignment * params_alignment;
    noted_.params.resize(c.params_at + c.num_bytes);
    std::memcpy(noted_.params.data() + c.params_at, params, c.num_bytes);
  }
  noted_.commands.push_back(c);
  if (is_direct_) issue_each(std::exchange(noted_, {}));
}

void step_queue::multiply(const blas_handle& blas, const blas_command& command) {
  go_on_directly();
  begin();
  queue_.multiply(blas, command);
  note_launch();
}

void step_queue::go_on_directly() {
  if (is_direct_ || is_recording_) return;
  is_direct_ = true;
  issue_each(std::exchange(noted_, {}));
}

void step_queue::forget() noexcept {
  noted_ = {};
  is_direct_ = is_recording_ = has_begun_ = false;
}

void step_queue::begin_recording() {
  issue();
  is_recording_ = true;
  has_moved_ = false;
}

step_queue::step step_queue::end_recording() noexcept {
  is_recording_ = false;
  return std::exchange(noted_, {});
}

// ---- timing

void step_queue::begin() {
  is_done_ = false;
  if (on().clock == nullptr || std::exchange(has_begun_, true)) return;
  begun_.record(queue_);
  asked_ = std::chrono::steady_clock::now();
  has_launched_ = false;
}

void step_queue::note_launch() {
  if (has_begun_ && !std::exchange(has_launched_, true))
    launching_ = std::chrono::steady_clock::now() - asked_;
}

void step_queue::note_end() {
  if (!std::exchange(has_begun_, false)) return;
  ++on().clock->num_steps;
  on().clock->busy_ns += static_cast<std::int64_t>(done_.seconds_since(begun_) * 1e9);
  on().clock->launching_ns += launching_.count();
}

// ---- issuing

void step_queue::issue_each(const step& from) {
  for (std::size_t i = 0; i < from.commands.size(); ++i) {
    const command& c = from.commands[i];
    begin();
    switch (c.what) {
    case command_kind::copy_in:
      queue_.copy_in(c.to, c.from, c.num_bytes);
      break;
    case command_kind::copy_out:
      queue_.copy_out(c.to, c.from, c.num_bytes);
      break;
    case command_kind::launch:
      queue_.launch(c.kernel, c.shape, from.params.data() + c.params_at, c.num_bytes);
      break;
    }
    note_launch();
  }
}

step_queue::known_shape* step_queue::find() {
  const auto found =
      std::ranges::find_if(shapes_, [&](const known_shape& known) { return known.latest.is_like(noted_); });
  if (found == shapes_.end()) return nullptr;
  std::rotate(shapes_.begin(), found, found + 1);
  return &shapes_.front();
}

void step_queue::remember(step&& from) {
  // Even if it is running: the device keeps what it needs.
  if (shapes_.size() == max_shapes) shapes_.pop_back();
  shapes_.push_front({std::move(from), nullptr, false});
}

std::unique_ptr<step_graph> step_queue::make_graph(const device_context& on, const step& from) {
  auto made = std::make_unique<step_graph>(on);
  for (std::size_t i = 0; i < from.commands.size(); ++i) {
    if (from.commands[i].what == command_kind::launch)
      made->add(from.launch(i));
    else
      made->add(from.commands[i].copy());
  }
  made->instantiate();
  return made;
}

void step_queue::refuse(known_shape& known, const error& why) {
  known.graph = nullptr;
  known.is_refused = true;
  if (!std::exchange(has_said_, true) && on().say)
    on().say("steps go on without a CUDA graph: " + why.message());
}

void step_queue::prepare(known_shape& known) {
  if (known.is_refused) return;
  try {
    if (!known.graph) {
      known.graph = make_graph(on(), noted_);
      return;
    }
    for (std::size_t i = 0; i < noted_.commands.size(); ++i) {
      const command& c = noted_.commands[i];
      if (c.what != command_kind::launch && !c.copies_the_same(known.latest.commands[i]))
        known.graph->update(i, c.copy());
    }
  } catch (const cuda_failure& e) {
    // The graph may be partly changed, but is never launched again.
    refuse(known, e.error());
    if (e.error().code() == errc::device_lost) throw;
  }
}

void step_queue::launch_graph(known_shape& known) {
  try {
    begin();
    known.graph->launch(queue_);
    note_launch();
  } catch (const cuda_failure& e) {
    refuse(known, e.error()); // this program fails; the next one runs without graphs
    throw;
  }
}

void step_queue::issue() {
  issue_noted();
  has_begun_ = false;
}

void step_queue::issue_noted() {
  is_direct_ = false;
  if (noted_.commands.empty()) return;
  known_shape* const known = find();
  if (known == nullptr) {
    step fresh = std::exchange(noted_, {}); // ends the step, whatever the outcome
    issue_each(fresh);
    remember(std::move(fresh));
    return;
  }
  try {
    prepare(*known);
  } catch (...) {
    known->graph = nullptr; // it may mix old and new commands
    forget();
    throw;
  }
  std::swap(known->latest, noted_);
  noted_.commands.clear(), noted_.params.clear(); // keeps their memory for the next step
  if (known->graph)
    launch_graph(*known);
  else
    issue_each(known->latest);
}

void step_queue::finish() {
  issue_noted();
  done_.record(queue_);
  done_.wait();
  note_end();
  is_done_ = true;
}

void step_queue::make_room(memory& of, std::size_t num_bytes) {
  if (of.size_bytes() >= num_bytes) return;
  if (is_recording_) {
    has_moved_ = true; // earlier commands have been issued
    done_.record(queue_);
    done_.wait();
  } else {
    finish();
  }
  of = {}; // never both at once
  of = memory(on(), memory_kind::on_device, num_bytes);
}

} // namespace paceline::gpu
