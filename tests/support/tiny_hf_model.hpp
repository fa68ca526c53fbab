#pragma once

#include "tests/support/tiny_model.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::test {

/// Writes safetensors files in memory. Nothing here checks what it is given.
class safetensors_builder {
 public:
  safetensors_builder& add(std::string_view name, std::string_view dtype,
                           const std::vector<std::uint64_t>& shape, const std::vector<std::byte>& data);
  /// Text put into the header before the tensors, with its comma: `"__metadata__":{"format":"pt"},`.
  std::string prologue;

  std::vector<std::byte> build() const;
  std::size_t num_tensors() const noexcept { return num_tensors_; }

  /// A file with any header text.
  static std::vector<std::byte> build_raw(std::string_view header, const std::vector<std::byte>& data);

 private:
  std::string entries_;
  std::vector<std::byte> data_;
  std::size_t num_tensors_ = 0;
};

void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes);
void write_text(const std::filesystem::path& path, std::string_view text);

/// Writes the model that `make_tiny_gguf(options)` makes as a Hugging Face directory: the same weights, in
/// this format's names, row order and norms. `options.type` is F32, F16 or BF16. Two shards or more get an
/// index. Norms are F32.
void write_tiny_hf(const tiny_model& options, const std::filesystem::path& directory,
                   std::size_t num_shards = 1);

/// The config.json of that directory.
std::string tiny_hf_config(const tiny_model& options);

} // namespace paceline::test
