#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"
#include "runtime/model/model_config.hpp"
#include "runtime/model/transformer.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace paceline::model {

/// Options for loading a transformer onto a device.
struct transformer_load_options {
  paceline::kv_type kv_type = paceline::kv_type::f16; ///< of KV pools
  std::uint32_t num_threads = 1;                      ///< threads that read and pack tensors
  /// Called after every few megabytes with the number of bytes read so far and the total. Calls come from any
  /// of the threads, one at a time. Must not throw.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Packs `source`, whose tensors must have the shapes implied by `config`, into the device's memory. The
/// source is not needed afterwards; `buffers` must outlive the model. Errors: the first error that a device
/// reports for a tensor, `unsupported`, and `resource_exhausted`.
expected<std::unique_ptr<transformer>>
load_transformer(const model_config& config, const weights_source& source, device::weight_memory& weights,
                 device::buffer_memory& buffers, const transformer_load_options& options);

} // namespace paceline::model
