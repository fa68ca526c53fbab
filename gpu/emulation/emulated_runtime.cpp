#include "gpu/emulation/emulated_runtime.hpp"

#include "gpu/emulation/blas_model.hpp"
#include "gpu/emulation/outcomes.hpp"
#include "gpu/emulation/thread_block.hpp"
#include "gpu/kernels/kernel_table.hpp"
#include "runtime/base/check.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace paceline::gpu::emulation {
namespace {

/// Pinned memory has unspecified contents, here NaN.
void* make_memory(std::size_t num_bytes) {
  constexpr std::size_t alignment = 256;
  void* const made = std::aligned_alloc(alignment, (num_bytes + alignment - 1) / alignment * alignment);
  if (made != nullptr) std::memset(made, 0xff, num_bytes);
  return made;
}

/// Limit of shared memory for a block of a cooperative launch, after asking for more: the lowest of the GPUs
/// in question.
constexpr std::uint32_t most_shared_together = 99 * 1024;

/// The object behind a raw_event.
struct owned_event {
  bool is_timed = false;
  std::optional<std::chrono::steady_clock::time_point>
      reached; ///< includes all earlier commands, which are done at the call
};

} // namespace

status emulated_runtime::called(const std::string& call) {
  std::lock_guard lock(mutex_);
  ++calls_[call];
  if (lost_) return launch_failure;
  const auto planned = failures_.find(call);
  if (planned == failures_.end()) return 0;
  if (planned->second.skipped-- > 0) return 0;
  const failure_kind how = planned->second.how;
  failures_.erase(planned);
  if (how == failure_kind::device_lost) {
    lost_ = true;
    return launch_failure;
  }
  return how == failure_kind::out_of_memory ? out_of_memory : invalid_value;
}

void emulated_runtime::fail(std::string call, std::uint32_t skipped, failure_kind how) {
  std::lock_guard lock(mutex_);
  failures_[std::move(call)] = {skipped, how};
}

std::uint32_t emulated_runtime::num_calls(const std::string& call) const {
  std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

status emulated_runtime::num_devices(int& out) {
  out = 1;
  return called("cudaGetDeviceCount");
}

status emulated_runtime::inspect(int, device_facts& out) {
  out = {"emulation", compute_capability_.load(), 0};
  return called("cudaGetDeviceProperties");
}

status emulated_runtime::find_kernel_target(int& out) {
  out = kernel_target_;
  return called("cudaFuncGetAttributes");
}

status emulated_runtime::use(int) { return called("cudaSetDevice"); }

status emulated_runtime::count_free(std::size_t& out) {
  out = free_bytes_;
  return called("cudaMemGetInfo");
}

status emulated_runtime::allocate(void*& out, std::size_t num_bytes) {
  if (const status failure = called("cudaMalloc")) return failure;
  out = memory_.allocate(num_bytes);
  if (out == nullptr) return out_of_memory;
  ++num_owned_;
  return 0;
}

/// A device completes its work before it frees memory.
void emulated_runtime::finish_all() {
  std::vector<std::shared_ptr<launch_line>> lines;
  {
    std::lock_guard lock(mutex_);
    for (const auto& line : lines_) lines.push_back(line.second);
  }
  for (const auto& line : lines) line->finish();
}

status emulated_runtime::release(void* memory) {
  finish_all();
  memory_.release(memory);
  --num_owned_;
  return called("cudaFree");
}

status emulated_runtime::allocate_pinned(void*& out, std::size_t num_bytes) {
  if (const status failure = called("cudaMallocHost")) return failure;
  out = make_memory(num_bytes);
  if (out == nullptr) return out_of_memory;
  ++num_owned_;
  return 0;
}

status emulated_runtime::release_pinned(void* memory) {
  finish_all();
  std::free(memory);
  --num_owned_;
  return called("cudaFreeHost");
}

status emulated_runtime::make_stream(raw_stream& out, int) {
  if (const status failure = called("cudaStreamCreateWithPriority")) return failure;
  out = new char;
  ++num_owned_;
  std::lock_guard lock(mutex_);
  lines_[out] = std::make_shared<launch_line>(memory_);
  return 0;
}

std::shared_ptr<launch_line> emulated_runtime::line_of(raw_stream stream) {
  std::lock_guard lock(mutex_);
  return lines_.at(stream);
}

void emulated_runtime::defer_to_end(raw_stream stream, std::function<void()> command) {
  defer(stream, [line = line_of(stream), command = std::move(command)] {
    line->finish();
    command();
  });
}

status emulated_runtime::end_stream(raw_stream stream) {
  line_of(stream)->finish();
  {
    std::lock_guard lock(mutex_);
    lines_.erase(stream);
  }
  delete static_cast<char*>(stream);
  --num_owned_;
  return called("cudaStreamDestroy");
}

status emulated_runtime::make_event(raw_event& out, bool is_timed) {
  if (const status failure = called("cudaEventCreate")) return failure;
  out = new owned_event{is_timed, {}};
  ++num_owned_;
  return 0;
}

status emulated_runtime::end_event(raw_event event) {
  delete static_cast<owned_event*>(event);
  --num_owned_;
  return called("cudaEventDestroy");
}

status emulated_runtime::record(raw_event event, raw_stream stream) {
  if (const status failure = called("cudaEventRecord")) return failure;
  defer_to_end(stream, [] {});
  static_cast<owned_event*>(event)->reached = std::chrono::steady_clock::now();
  return 0;
}

status emulated_runtime::elapsed(double& seconds, raw_event from, raw_event to) {
  if (const status failure = called("cudaEventElapsedTime")) return failure;
  const auto &begin = *static_cast<owned_event*>(from), &end = *static_cast<owned_event*>(to);
  if (!begin.is_timed || !end.is_timed || !begin.reached || !end.reached) return invalid_value;
  seconds = std::chrono::duration<double>(*end.reached - *begin.reached).count();
  return 0;
}

status emulated_runtime::wait(raw_event event) {
  await(event);
  return called("cudaEventSynchronize");
}

status emulated_runtime::has_come_to(bool& out, raw_event event) {
  out = num_not_yet_ == 0;
  if (out)
    await(event);
  else
    --num_not_yet_;
  return called("cudaEventQuery");
}

/// Commands run at the call, so the commands before the event's record are already done.
status emulated_runtime::wait_on_device(raw_stream stream, raw_event) {
  if (const status failure = called("cudaStreamWaitEvent")) return failure;
  defer_to_end(stream, [] {});
  return 0;
}

status emulated_runtime::copy_in(void* to, const void* from, std::size_t num_bytes, raw_stream stream) {
  if (const status failure = called("cudaMemcpyAsync")) return failure;
  enqueue(copy_command{to, from, num_bytes, false}, stream);
  return 0;
}

status emulated_runtime::copy_out(void* to, const void* from, std::size_t num_bytes, raw_stream stream) {
  if (const status failure = called("cudaMemcpyAsync")) return failure;
  enqueue(copy_command{to, from, num_bytes, true}, stream);
  return 0;
}

void emulated_runtime::enqueue(const copy_command& copy, raw_stream stream) {
  if (copy.to_host) num_bytes_out_ += copy.num_bytes;
  defer_to_end(stream, [this, copy] {
    const device_memory::access open(memory_);
    std::memcpy(copy.to, copy.from, copy.num_bytes);
  });
}

status emulated_runtime::copy_within(void* to, const void* from, std::size_t num_bytes, raw_stream stream) {
  if (const status failure = called("cudaMemcpyAsync")) return failure;
  enqueue(copy_command{to, from, num_bytes, false}, stream);
  return 0;
}

status emulated_runtime::fill(void* to, std::uint8_t value, std::size_t num_bytes, raw_stream stream) {
  if (const status failure = called("cudaMemsetAsync")) return failure;
  defer_to_end(stream, [=, this] {
    const device_memory::access open(memory_);
    std::memset(to, value, num_bytes);
  });
  return 0;
}

bool emulated_runtime::can_start(launch_start start) const noexcept {
  return start == launch_start::at_end || (compute_capability_.load() >= 90 && kernel_target_.load() >= 90);
}

status emulated_runtime::launch(const launch_command& launch, raw_stream stream) {
  if (const status failure = called("cudaLaunchKernel")) return failure;
  if (!can_launch(launch.shape)) return invalid_value;
  if (!can_start(launch.start)) return not_supported;
  enqueue(kept_launch(launch), launch.start, stream);
  return 0;
}

status emulated_runtime::count_together(std::uint32_t& of_multiprocessor, std::uint32_t& num_multiprocessors,
                                        kernel_id, std::uint32_t, std::uint32_t shared_bytes) {
  of_multiprocessor = shared_bytes <= most_shared_together ? 1 : 0;
  num_multiprocessors = num_multiprocessors_.load();
  return called("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
}

status emulated_runtime::launch_together(kernel_id kernel, const launch_shape& shape, const void* params,
                                         std::size_t params_bytes, raw_stream stream) {
  if (const status failure = called("cudaLaunchCooperativeKernel")) return failure;
  if (shape.blocks_x == 0 || shape.blocks_y != 1 || shape.blocks_x > num_multiprocessors_.load() ||
      shape.threads > 1024 || shape.shared_bytes > most_shared_together)
    return invalid_value;
  const std::uint64_t seed = next_seed();
  defer_to_end(stream, [this, seed, launch = kept_launch({kernel, shape, params, params_bytes})] {
    const device_memory::access open(memory_);
    run_together({launch.shape.blocks_x, 1, launch.shape.threads, launch.shape.shared_bytes}, seed,
                 [&] { run_emulated_thread(launch.kernel, launch.params()); });
  });
  return 0;
}

std::uint64_t emulated_runtime::next_seed() {
  return seed_ * 0x9E3779B97F4A7C15ULL + num_launches_.fetch_add(1);
}

void emulated_runtime::enqueue(const kept_launch& launch, launch_start start, raw_stream stream) {
  const std::uint64_t seed = next_seed();
  ++launches_of_[static_cast<std::size_t>(launch.kernel)];
  if (start == launch_start::early) ++num_early_;
  defer(stream, [seed, launch, start, line = line_of(stream)] { line->add(launch, seed, start); });
}

status emulated_runtime::make_blas(raw_blas& out) {
  if (const status failure = called("cublasLtCreate")) return failure;
  out = new char;
  ++num_owned_;
  return 0;
}

status emulated_runtime::end_blas(raw_blas blas) {
  delete static_cast<char*>(blas);
  --num_owned_;
  return called("cublasLtDestroy");
}

status emulated_runtime::choose_algorithm(blas_algorithm& out, raw_blas, const blas_product& product,
                                          std::size_t) {
  if (const status failure = called("cublasLtMatmulAlgoGetHeuristic")) return failure;
  if (!is_sound(product)) return invalid_value;
  out = algorithm_of(product);
  return 0;
}

status emulated_runtime::multiply(raw_blas, const blas_command& command, raw_stream stream) {
  if (const status failure = called("cublasLtMatmul")) return failure;
  if (!is_sound(command)) return invalid_value;
  defer_to_end(stream, [this, command] {
    const device_memory::access open(memory_);
    emulation::multiply(command);
  });
  return 0;
}

std::string emulated_runtime::describe(status failure) const {
  switch (failure) {
  case out_of_memory:
    return "emulated: out of memory";
  case launch_failure:
    return "emulated: the device is lost";
  default:
    return "emulated: failure " + std::to_string(failure);
  }
}

failure_kind emulated_runtime::kind_of(status failure) const noexcept {
  if (failure == out_of_memory) return failure_kind::out_of_memory;
  return failure == launch_failure ? failure_kind::device_lost : failure_kind::other;
}

} // namespace paceline::gpu::emulation
