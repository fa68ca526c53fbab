// Transfers weights to the device: in the order of the file, or in the order in which they are streamed.
#include "gpu/cuda_device.hpp"
#include "gpu/cuda_matrix.hpp"
#include "gpu/kernels/streamed_params.hpp"
#include "gpu/pieces.hpp"
#include "runtime/device/stored_block.hpp"

#include <algorithm>

namespace paceline::gpu {
namespace {

/// Bytes of a tensor that are copied at a time; their pages can be dropped afterwards.
constexpr std::size_t upload_bytes = std::size_t{8} << 20;
/// Rows of a tensor that are packed at a time; a grid has at most 65535 blocks in y.
constexpr std::size_t most_packed_rows = 32768;

weight_rows rows_of(const device::tensor_view& tensor) {
  const auto traits = *device::traits_of(tensor.type);
  weight_rows out;
  out.row_bytes = tensor.bytes.size() / tensor.num_rows;
  out.type = tensor.type;
  out.block_bytes = static_cast<std::uint16_t>(traits.block_bytes);
  out.block_values = static_cast<std::uint16_t>(traits.block_values);
  out.num_rows = static_cast<std::uint32_t>(tensor.num_rows);
  out.num_cols = static_cast<std::uint32_t>(tensor.num_cols);
  return out;
}

/// Whether rows are scaled by powers of two so that they fit float16.
bool is_scaled(device::tensor_type type, arithmetic products) {
  return type == device::tensor_type::bf16 ||
         (products == arithmetic::fast && type != device::tensor_type::f16);
}

} // namespace

expected<std::unique_ptr<const device::matrix>> cuda_device::pack(std::string_view name,
                                                                  const device::tensor_view& tensor,
                                                                  const device::bytes_done& done,
                                                                  const device::bytes_needed& needed) {
  if (auto ok = device::check_tensor(name, tensor); !ok) return std::move(ok).error();
  const bool is_streamed = is_sixteen_bit(context_.products) && streamed_layout_of(tensor.type).is_streamed();
  try {
    context_.require(context_.api.use(context_.index), "cudaSetDevice");
    return is_streamed ? pack_streamed(tensor, done, needed) : pack_rows(tensor, done, needed);
  } catch (const cuda_failure& e) {
    return error(e.error()).within("tensor " + std::string(name));
  }
}

expected<std::unique_ptr<const device::matrix>> cuda_device::pack_rows(const device::tensor_view& tensor,
                                                                       const device::bytes_done& done,
                                                                       const device::bytes_needed& needed) {
  memory bytes(context_, memory_kind::on_device, tensor.bytes.size());
  for (std::size_t at = 0; at < tensor.bytes.size(); at += upload_bytes) {
    const auto part = tensor.bytes.subspan(at, std::min(upload_bytes, tensor.bytes.size() - at));
    if (auto ready = needed ? needed(part) : expected<void>(); !ready) return std::move(ready).error();
    upload(bytes.data() + at, part);
    if (done) done(part);
  }
  weight_rows rows = rows_of(tensor);
  rows.bytes = bytes.data();
  return std::unique_ptr<const device::matrix>(
      std::make_unique<cuda_matrix>(context_, std::move(bytes), rows));
}

/// The rows are in the file's order. A few strips at a time are copied, and a kernel reorders them.
expected<std::unique_ptr<const device::matrix>>
cuda_device::pack_streamed(const device::tensor_view& tensor, const device::bytes_done& done,
                           const device::bytes_needed& needed) {
  const streamed_layout layout = streamed_layout_of(tensor.type);
  weight_rows rows = rows_of(tensor);
  const std::size_t num_spans = pieces(rows.num_cols, layout.span_cols());
  streamed_weights out{nullptr,   nullptr,       num_spans * layout.span_bytes(),
                       rows.type, rows.num_rows, rows.num_cols};
  // The file has all rows, and a strip is at most 64 * 16 times as large as its part of the file, so nothing
  // overflows.
  memory bytes(context_, memory_kind::on_device, out.num_strips() * out.strip_bytes);
  memory multipliers;
  if (is_scaled(rows.type, context_.products))
    multipliers = memory(context_, memory_kind::on_device, out.num_strips() * strip_rows * sizeof(float));
  out.bytes = bytes.data();
  out.multipliers = reinterpret_cast<const float*>(multipliers.data());

  const std::size_t fitting =
      std::clamp<std::size_t>(upload_bytes / rows.row_bytes, strip_rows, most_packed_rows);
  const std::size_t rows_of_part = fitting / strip_rows * strip_rows;
  const memory part_there(context_, memory_kind::on_device,
                          std::min<std::size_t>(rows_of_part, rows.num_rows) * rows.row_bytes);
  rows.bytes = part_there.data();
  for (std::size_t first = 0; first < tensor.num_rows; first += rows_of_part) {
    rows.num_rows = static_cast<std::uint32_t>(std::min<std::size_t>(rows_of_part, tensor.num_rows - first));
    const auto part = tensor.bytes.subspan(first * rows.row_bytes, rows.num_rows * rows.row_bytes);
    if (auto ready = needed ? needed(part) : expected<void>(); !ready) return std::move(ready).error();
    upload(part_there.data(), part);
    pack_part(rows, bytes.data() + first / strip_rows * out.strip_bytes, out.strip_bytes,
              static_cast<std::uint32_t>(num_spans * layout.tiles_of_span),
              out.multipliers != nullptr ? reinterpret_cast<float*>(multipliers.data()) + first : nullptr);
    if (done) done(part);
  }
  rows.bytes = nullptr;
  rows.num_rows = out.num_rows;
  return std::unique_ptr<const device::matrix>(
      std::make_unique<cuda_matrix>(context_, std::move(bytes), rows, std::move(multipliers), out));
}

void cuda_device::pack_part(const weight_rows& from, std::byte* to, std::size_t strip_bytes,
                            std::uint32_t num_tiles, float* multipliers) {
  const std::lock_guard lock(transfer_mutex_);
  const std::uint32_t num_strips = pieces(from.num_rows, strip_rows);
  const pack_weights_params params{from, to, strip_bytes, num_tiles};
  transfer_queue_->launch(kernel_id::pack_weights,
                          {pieces(num_tiles * 32, pack_threads), num_strips, pack_threads, 0}, &params,
                          sizeof params);
  if (multipliers != nullptr) {
    const scale_weight_rows_params scales{from, multipliers};
    transfer_queue_->launch(kernel_id::scale_weight_rows, {1, num_strips * strip_rows, 32, 0}, &scales,
                            sizeof scales);
  }
  transferred_->record(*transfer_queue_);
  // The next part uses the same memory. Products may read weights before their turn (docs/decisions/0510).
  transferred_->wait();
}

} // namespace paceline::gpu
