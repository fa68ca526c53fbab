#include "gpu/read_probe.hpp"

#include "gpu/kernels/streamed_params.hpp"
#include "runtime/base/check.hpp"

#include <algorithm>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t threads = 256;
constexpr int num_sweeps = 4; // enough that the launch, which is timed with them, is negligible

} // namespace

read_probe::read_probe(const device_context& on, std::size_t num_bytes)
    : on_(on), queue_(on, 0), begun_(on, true), done_(on, true),
      from_(on, memory_kind::on_device, num_bytes) {
  PACELINE_CHECK(num_bytes != 0 && num_bytes % probe_read_bytes == 0,
                 "a probe of " + std::to_string(num_bytes) + " bytes");
  std::uint32_t of_multiprocessor = 0, num_multiprocessors = 0;
  on.require(
      on.api.count_together(of_multiprocessor, num_multiprocessors, kernel_id::read_memory, threads, 0),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  num_blocks_ = std::max(of_multiprocessor * num_multiprocessors, 1U);
  words_ = memory(on, memory_kind::on_device, std::size_t{num_blocks_} * threads * probe_read_bytes);
  constexpr std::uint8_t anything_but_zero = 0x5a; // not zero, which a GPU could treat specially
  queue_.fill(from_.data(), anything_but_zero, num_bytes);
}

double read_probe::sample() {
  const read_memory_params params{from_.data(), from_.size_bytes() / probe_read_bytes, num_blocks_,
                                  reinterpret_cast<std::uint32_t*>(words_.data())};
  begun_.record(queue_);
  for (int sweep = 0; sweep < num_sweeps; ++sweep)
    queue_.launch(kernel_id::read_memory, {num_blocks_, 1, threads, 0}, &params, sizeof params);
  done_.record(queue_);
  done_.wait();
  return num_sweeps * static_cast<double>(from_.size_bytes()) / done_.seconds_since(begun_);
}

} // namespace paceline::gpu
