#pragma once

#include "runtime/device/tensor_type.hpp"
#include "runtime/model/loader/gguf/gguf_metadata.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::test {

/// Writes GGUF files in memory, valid ones and, on request, invalid ones: it does not check its input.
class gguf_builder {
 public:
  /// Adds a metadata key. Values are stored as the type their function names.
  gguf_builder& set_uint32(std::string_view key, std::uint32_t value);
  gguf_builder& set_uint16(std::string_view key, std::uint16_t value);
  gguf_builder& set_uint64(std::string_view key, std::uint64_t value);
  gguf_builder& set_int32(std::string_view key, std::int32_t value);
  gguf_builder& set_float32(std::string_view key, float value);
  gguf_builder& set_bool(std::string_view key, bool value);
  gguf_builder& set_string(std::string_view key, std::string_view value);
  gguf_builder& set_strings(std::string_view key, std::span<const std::string> values);
  gguf_builder& set_float32s(std::string_view key, std::span<const float> values);
  gguf_builder& set_int32s(std::string_view key, std::span<const std::int32_t> values);
  gguf_builder& set_bools(std::string_view key, const std::vector<bool>& values);
  /// `payload` is what follows the type number in the file.
  gguf_builder& set_raw(std::string_view key, std::uint32_t type, std::span<const std::byte> payload);
  /// Removes a key; the next `set_*` for it adds it at the end.
  gguf_builder& remove(std::string_view key);

  /// Gives all keys that begin with `from` the beginning `to`.
  gguf_builder& rename_keys(std::string_view from, std::string_view to);

  /// Adds a tensor of `shape` (GGUF's order: values of a row first) with the given bytes.
  gguf_builder& add_tensor(std::string_view name, device::tensor_type type, std::vector<std::uint64_t> shape,
                           std::vector<std::byte> data);
  gguf_builder& remove_tensor(std::string_view name);
  gguf_builder& rename_tensor(std::string_view from, std::string_view to);

  std::uint32_t version = 3;
  std::uint32_t alignment = 32; ///< of the data; a file with another value needs "general.alignment" set too

  /// The whole file.
  std::vector<std::byte> build() const;
  /// Bytes of `build()` before the tensor data.
  std::size_t header_bytes() const;
  void write(const std::filesystem::path& path) const;

  struct tensor {
    std::string name;
    device::tensor_type type;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> data;
  };
  std::span<const tensor> tensors() const noexcept { return tensors_; }

 private:
  struct entry {
    std::string key;
    std::uint32_t type;
    std::vector<std::byte> payload;
  };

  std::vector<std::byte> build_header() const;

  std::vector<entry> entries_;
  std::vector<tensor> tensors_;
};

} // namespace paceline::test
