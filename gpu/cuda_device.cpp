#include "gpu/cuda_device.hpp"

#include "gpu/cuda_stream.hpp"
#include "runtime/base/check.hpp"

#include <new>

namespace paceline::gpu {
namespace {

/// Failure of an allocation, with its reason.
class allocation_failure final : public std::bad_alloc {
 public:
  explicit allocation_failure(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

} // namespace

class cuda_device::cuda_buffer final : public device::buffer {
 public:
  cuda_buffer(cuda_device& on, memory piece) : on_(on), piece_(std::move(piece)) {}

  std::byte* data() noexcept override { return piece_.data(); }
  std::uint64_t size_bytes() const noexcept override { return piece_.size_bytes(); }
  void upload(std::uint64_t offset, std::span<const std::byte> bytes) override {
    check_range(offset, bytes.size());
    on_.upload(piece_.data() + offset, bytes);
  }
  void fill(std::uint64_t offset, std::uint64_t num_bytes, std::byte value) override {
    check_range(offset, num_bytes);
    on_.fill(piece_.data() + offset, value, num_bytes);
  }

 private:
  void check_range(std::uint64_t offset, std::uint64_t num_bytes) const {
    PACELINE_CHECK(offset <= size_bytes() && num_bytes <= size_bytes() - offset, "range outside the buffer");
  }

  cuda_device& on_;
  memory piece_;
};

cuda_device::cuda_device(runtime_api& api, int index, device_facts facts, arithmetic products,
                         cuda_device_options how)
    : context_{api,
               index,
               "cuda:" + std::to_string(index),
               products,
               std::move(how.say),
               facts.can_start_early() ? how.earliest : launch_start::at_end,
               how.is_timed ? &clock_ : nullptr,
               how.polling},
      facts_(std::move(facts)) {
  context_.require(api.use(index), "cudaSetDevice");
  // Streams create their own; this reports at once that a machine has no cuBLASLt.
  if (products == arithmetic::fast) const blas_handle probe(context_);
  transfer_queue_.emplace(context_, 0);
  transferred_.emplace(context_);
}

expected<std::unique_ptr<cuda_device>> cuda_device::open(runtime_api& api, int index, arithmetic products,
                                                         cuda_device_options how) {
  const device_context asked{api, index, "cuda:" + std::to_string(index)};
  int num_devices = 0;
  if (const status failure = api.num_devices(num_devices); failure != 0)
    return error(errc::unsupported, "device " + asked.name + ": " + api.describe(failure));
  if (index < 0 || index >= num_devices)
    return error(errc::unsupported, "device " + asked.name + ": this machine has " +
                                        std::to_string(num_devices) + " CUDA devices");
  device_facts facts;
  if (const status failure = api.inspect(index, facts); failure != 0)
    return asked.error_of(failure, "cudaGetDeviceProperties");
  if (const status failure = api.use(index); failure != 0) return asked.error_of(failure, "cudaSetDevice");
  if (const status failure = api.find_kernel_target(facts.kernel_target); failure != 0)
    return asked.error_of(failure, "cudaFuncGetAttributes of a kernel, for compute capability " +
                                       std::to_string(facts.compute_capability / 10) + "." +
                                       std::to_string(facts.compute_capability % 10));
  try {
    return std::unique_ptr<cuda_device>(
        new cuda_device(api, index, std::move(facts), products, std::move(how)));
  } catch (const cuda_failure& e) {
    return e.error();
  }
}

expected<device::memory_space> cuda_device::cell_memory() {
  std::size_t free_bytes = 0;
  if (const status failure = context_.api.use(context_.index); failure != 0)
    return context_.error_of(failure, "cudaSetDevice");
  if (const status failure = context_.api.count_free(free_bytes); failure != 0)
    return context_.error_of(failure, "cudaMemGetInfo");
  return device::memory_space{context_.name, free_bytes / 10 * 9, true, free_bytes};
}

std::unique_ptr<device::stream> cuda_device::make_stream(std::string name, std::uint32_t partition,
                                                         device::stream_options options) {
  PACELINE_CHECK(partition == 0, "stream " + name + ": " + context_.name + " has one partition");
  context_.require(context_.api.use(context_.index), "cudaSetDevice");
  return make_cuda_stream(context_, std::move(name), options.priority);
}

device::step_times cuda_device::times() const noexcept {
  return {clock_.num_steps, std::chrono::nanoseconds(clock_.busy_ns),
          std::chrono::nanoseconds(clock_.launching_ns)};
}

void cuda_device::upload(std::byte* to, std::span<const std::byte> bytes) {
  std::lock_guard lock(transfer_mutex_);
  context_.require(context_.api.use(context_.index), "cudaSetDevice");
  transfer_queue_->copy_in(to, bytes.data(), bytes.size());
  transferred_->record(*transfer_queue_);
  transferred_->wait();
}

void cuda_device::fill(std::byte* to, std::byte value, std::size_t num_bytes) {
  std::lock_guard lock(transfer_mutex_);
  context_.require(context_.api.use(context_.index), "cudaSetDevice");
  transfer_queue_->fill(to, std::to_integer<std::uint8_t>(value), num_bytes);
  transferred_->record(*transfer_queue_);
  transferred_->wait();
}

std::unique_ptr<device::buffer> cuda_device::allocate(std::uint64_t num_bytes) {
  try {
    context_.require(context_.api.use(context_.index), "cudaSetDevice");
    return std::make_unique<cuda_buffer>(*this, memory(context_, memory_kind::on_device, num_bytes));
  } catch (const cuda_failure& e) {
    throw allocation_failure(e.what());
  }
}

} // namespace paceline::gpu
