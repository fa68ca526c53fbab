#include "runtime/model/heads/head_files.hpp"

#include "runtime/model/loader/hf_directory.hpp"
#include "runtime/model/loader/json_text.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline::model {

std::uint64_t head_tensor::num_values() const noexcept {
  std::uint64_t values = 1;
  for (std::uint32_t d = 0; d < num_dims; ++d) values *= shape[d]; // the container's parser has checked it
  return values;
}

expected<void> head_tensor::read(std::span<const std::byte> part) const {
  return from ? from->read(part) : expected<void>();
}

void head_tensor::release(std::span<const std::byte> part) const noexcept {
  if (from) from->release(part);
}

expected<std::vector<head_tensor>> open_head_files(const std::filesystem::path& path) {
  const auto files = open_weight_files(path);
  if (!files) return files.error();
  std::vector<head_tensor> tensors;
  for (const safetensors_file& file : *files)
    for (const safetensors_tensor& one : file.tensors())
      tensors.push_back(
          {one.name, one.shape, one.num_dims, one.type, one.integer_bytes, one.data, file.from()});
  return tensors;
}

expected<boost::json::object> config_if_any(const std::filesystem::path& directory) {
  const auto path = directory / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return boost::json::object();
  return read_json_file(path);
}

expected<bool> are_equal(const head_tensor& a, const head_tensor& b) {
  if (a.type != b.type || a.integer_bytes != b.integer_bytes || a.num_dims != b.num_dims ||
      a.shape != b.shape || a.data.size() != b.data.size())
    return false;
  constexpr std::size_t chunk = std::size_t{4} << 20U;
  for (std::size_t at = 0; at < a.data.size(); at += chunk) {
    const std::size_t size = std::min(chunk, a.data.size() - at);
    const auto in_a = a.data.subspan(at, size), in_b = b.data.subspan(at, size);
    if (auto read = a.read(in_a); !read) return std::move(read).error();
    if (auto read = b.read(in_b); !read) return std::move(read).error();
    const bool equal = std::memcmp(in_a.data(), in_b.data(), size) == 0;
    a.release(in_a);
    b.release(in_b);
    if (!equal) return false;
  }
  return true;
}

} // namespace paceline::model
