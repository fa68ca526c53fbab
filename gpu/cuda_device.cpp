#include "gpu/cuda_device.hpp"

#include "gpu/cuda_matrix.hpp"
#include "gpu/cuda_stream.hpp"
#include "runtime/base/check.hpp"
#include "runtime/device/stored_block.hpp"

#include <algorithm>
#include <new>

namespace paceline::gpu {
namespace {

/// Bytes of a tensor that are copied at a time, after which their pages may go.
constexpr std::size_t upload_bytes = std::size_t{8} << 20;

/// No memory, and why.
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

cuda_device::cuda_device(runtime_api& api, int index, device_facts facts)
    : context_{api, index, "cuda:" + std::to_string(index)}, facts_(std::move(facts)) {
  context_.require(api.use(index), "cudaSetDevice");
  transfer_queue_.emplace(context_, 0);
  transferred_.emplace(context_);
}

expected<std::unique_ptr<cuda_device>> cuda_device::open(runtime_api& api, int index) {
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
  try {
    return std::unique_ptr<cuda_device>(new cuda_device(api, index, std::move(facts)));
  } catch (const cuda_failure& e) {
    return e.error();
  }
}

std::unique_ptr<device::stream> cuda_device::make_stream(std::string name, std::uint32_t partition,
                                                         device::stream_priority priority) {
  PACELINE_CHECK(partition == 0, "stream " + name + ": " + context_.name + " has one partition");
  context_.require(context_.api.use(context_.index), "cudaSetDevice");
  return make_cuda_stream(context_, std::move(name), priority);
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

expected<std::unique_ptr<const device::matrix>>
cuda_device::pack(std::string_view name, const device::tensor_view& tensor, const device::bytes_done& done) {
  if (auto ok = device::check_tensor(name, tensor); !ok) return std::move(ok).error();
  const auto traits = *device::traits_of(tensor.type);
  try {
    context_.require(context_.api.use(context_.index), "cudaSetDevice");
    memory bytes(context_, memory_kind::on_device, tensor.bytes.size());
    for (std::size_t at = 0; at < tensor.bytes.size(); at += upload_bytes) {
      const auto part = tensor.bytes.subspan(at, std::min(upload_bytes, tensor.bytes.size() - at));
      upload(bytes.data() + at, part);
      if (done) done(part);
    }
    const weight_rows rows{bytes.data(),
                           tensor.bytes.size() / tensor.num_rows,
                           tensor.type,
                           static_cast<std::uint16_t>(traits.block_bytes),
                           static_cast<std::uint16_t>(traits.block_values),
                           static_cast<std::uint32_t>(tensor.num_rows),
                           static_cast<std::uint32_t>(tensor.num_cols)};
    return std::unique_ptr<const device::matrix>(
        std::make_unique<cuda_matrix>(context_, std::move(bytes), rows));
  } catch (const cuda_failure& e) {
    return error(e.error()).within("tensor " + std::string(name));
  }
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
