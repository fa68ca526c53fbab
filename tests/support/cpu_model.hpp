#pragma once

#include "runtime/cpu/cpu_device.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/transformer_loader.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace paceline::test {

struct cpu_model_options {
  std::uint32_t num_threads = 1;
  std::optional<cpu::kernel_level> level;
  paceline::kv_type kv_type = paceline::kv_type::f16;
};

/// A model on its own CPU device, run synchronously. Throws std::runtime_error with the reason of a failure.
class cpu_model {
 public:
  cpu_model(const model::gguf_file& file, const cpu_model_options& options);
  cpu_model(const model::model_config& config, const model::weights_source& weights,
            const cpu_model_options& options);
  /// A GGUF file or a Hugging Face directory.
  static cpu_model open(const std::filesystem::path& path, const cpu_model_options& options);

  const model::transformer& get() const noexcept { return *model_; }
  std::unique_ptr<model::kv_storage> make_kv(std::uint32_t num_blocks, std::uint32_t block_size) const {
    return model_->make_kv_storage(num_blocks, block_size);
  }
  void forward(const device::row_batch& batch, model::kv_storage& kv, const model::forward_outputs& outputs);
  void run(const device::program& work);
  cpu::cpu_device& device() noexcept { return *device_; }

 private:
  std::unique_ptr<cpu::cpu_device> device_;
  std::unique_ptr<device::stream> stream_;
  std::unique_ptr<model::transformer> model_;
};

} // namespace paceline::test
