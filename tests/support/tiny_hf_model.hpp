#pragma once

#include "tests/support/tiny_fp8.hpp"
#include "tests/support/tiny_model.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::test {

/// Writes safetensors files in memory. Does not check its input.
class safetensors_builder {
 public:
  safetensors_builder& add(std::string_view name, std::string_view dtype,
                           const std::vector<std::uint64_t>& shape, const std::vector<std::byte>& data);
  /// Text in the header before the tensors, with its comma: `"__metadata__":{"format":"pt"},`.
  std::string prologue;

  std::vector<std::byte> build() const;
  const std::vector<std::string>& names() const noexcept { return names_; }

  /// A file with any header text.
  static std::vector<std::byte> build_raw(std::string_view header, const std::vector<std::byte>& data);

 private:
  std::string entries_;
  std::vector<std::byte> data_;
  std::vector<std::string> names_;
};

void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes);
void write_text(const std::filesystem::path& path, std::string_view text);

/// With scales, the projections of a model become F8_E4M3, each followed by a tensor of scales, and the other
/// matrices become BF16. With `decoded`, all matrices are the F32 values that these represent.
struct tiny_fp8 {
  fp8_scales scales = fp8_scales::none;
  bool decoded = false;
};

/// Writes the model of `make_tiny_gguf(options)` as a Hugging Face directory, experts in a tensor each or,
/// with `options.fused_experts`, all in one: the same weights with this format's names, row order and norms.
/// `options.type` is F32, F16 or BF16, or F32 with FP8 scales. Two or more shards get an index. Norms are
/// F32.
void write_tiny_hf(const tiny_model& options, const std::filesystem::path& directory,
                   std::size_t num_shards = 1, const tiny_fp8& fp8 = {});

/// The config.json of that directory.
std::string tiny_hf_config(const tiny_model& options, const tiny_fp8& fp8 = {});

/// A tokenizer.json with `num_tokens` tokens: "t0 ", "t1 " and so on.
void write_tiny_tokenizer(const std::filesystem::path& directory, std::uint32_t num_tokens);

} // namespace paceline::test
