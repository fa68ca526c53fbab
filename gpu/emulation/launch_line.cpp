#include "gpu/emulation/launch_line.hpp"

#include "gpu/emulation/thread_block.hpp"
#include "gpu/kernels/kernel_table.hpp"

#include <utility>

namespace paceline::gpu::emulation {
namespace {

/// The maximum number of launches that are held back, and of blocks that each of them starts early. Both are
/// limited because started blocks need stacks.
constexpr std::uint32_t most_held = 3;
constexpr std::uint32_t most_started = 2;

/// A pseudo-random number below `bound`, independent for each `purpose`, for launches with consecutive seeds.
std::uint32_t chosen(std::uint64_t seed, std::uint64_t purpose, std::uint32_t bound) {
  const std::uint64_t mixed = (seed ^ purpose << 56) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::uint32_t>((mixed ^ (mixed >> 29)) * 0x94D049BB133111EBULL >> 40) % bound;
}

} // namespace

struct launch_line::held_launch {
  held_launch(const kept_launch& from, std::uint64_t seed)
      : launch(from),
        run({from.shape.blocks_x, from.shape.blocks_y, from.shape.threads, from.shape.shared_bytes}, seed,
            [this] { run_emulated_thread(launch.kernel, launch.params()); }) {}

  const kept_launch launch;
  grid_run run;
};

launch_line::launch_line(device_memory& memory) : memory_(memory) {}
launch_line::~launch_line() = default;

void launch_line::add(const kept_launch& launch, std::uint64_t seed, launch_start start) {
  const std::lock_guard lock(mutex_);
  if (start == launch_start::at_end) finish_all_but(0);
  auto next = std::make_unique<held_launch>(launch, seed);
  if (start == launch_start::early)
    run_or_drop_all([&] { next->run.start_early(chosen(seed, 1, most_started + 1)); });
  held_.push_back(std::move(next));
  finish_all_but(1 + chosen(seed, 2, most_held));
}

void launch_line::finish() {
  const std::lock_guard lock(mutex_);
  finish_all_but(0);
}

void launch_line::finish_all_but(std::size_t num_left) {
  while (held_.size() > num_left) {
    const auto first = std::move(held_.front());
    held_.pop_front();
    run_or_drop_all([&] { first->run.finish(); });
  }
}

void launch_line::run_or_drop_all(const std::function<void()>& work) {
  const device_memory::access open(memory_);
  try {
    work();
  } catch (...) {
    held_.clear();
    throw;
  }
}

} // namespace paceline::gpu::emulation
