#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/hugging_face/safetensors_header.hpp"
#include "runtime/model/loader/partial_file.hpp"

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

struct scale_grid;

/// A tensor of a head's files.
struct head_tensor {
  std::string name;                       ///< as the file spells it
  safetensors_shape shape{1, 1, 1, 1, 1}; ///< outermost first, [num_dims]
  std::uint32_t num_dims = 0;
  device::tensor_type type = device::tensor_type::f32;
  /// If not 0, the values are integers of this many bytes, and `type` has no meaning.
  std::uint8_t integer_bytes = 0;
  std::span<const std::byte> data; ///< must be read before use
  std::shared_ptr<const partial_file>
      from; ///< file that reads `data` and keeps it valid; null if the bytes are in memory
  /// The scales of `data` if `data` has only the codes of F8_E4M3 values; otherwise null.
  std::shared_ptr<const scale_grid> scales = {};
  /// Owns the bytes of `data` if the loader computed them; null if they are the file's bytes.
  std::shared_ptr<const std::vector<std::byte>> made = {};

  std::uint64_t num_values() const noexcept;
  /// Makes bytes of `data` available. Error: `invalid_file`.
  expected<void> read(std::span<const std::byte> part) const;
  /// Frees the memory of bytes of `data` that will not be read again.
  void release(std::span<const std::byte> part) const noexcept;
};

/// True if `path` names a regular file, which is then read as GGUF. False for a directory, and for a path
/// that does not exist or cannot be examined: opening it as a directory gives the error.
bool is_gguf_head(const std::filesystem::path& path);

/// The tensors of a head, from a GGUF file or from all .safetensors files of a directory. Errors: those of
/// `gguf_file::open` and `open_weight_files`.
expected<std::vector<head_tensor>> open_head_files(const std::filesystem::path& path);
std::vector<head_tensor> tensors_of(const gguf_file& file);

/// The name that a tensor of a GGUF file has in directories: "layers.0.self_attn.q_proj.weight" for
/// "blk.0.attn_q.weight". Embedding, final norm and LM head are renamed, too. Others keep their names.
std::string name_in_directories(std::string_view in_gguf);
/// The inverse.
std::string name_in_gguf(std::string_view in_directories);

/// The directory's config.json; an empty object if there is no such file.
expected<boost::json::object> config_if_any(const std::filesystem::path& directory);

/// True if types, shapes and bytes of both are equal. Error: a file cannot be read.
expected<bool> are_equal(const head_tensor& a, const head_tensor& b);

} // namespace paceline::model
