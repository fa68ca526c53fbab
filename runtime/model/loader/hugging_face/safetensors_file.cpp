#include "runtime/model/loader/hugging_face/safetensors_file.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/checked_size.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

constexpr std::uint64_t max_header_bytes = 100'000'000;

/// Bytes implied by dtype and shape; nullopt if they exceed 64 bits.
std::optional<std::uint64_t> implied_bytes(const safetensors_entry& entry) noexcept {
  std::optional<std::uint64_t> bytes =
      entry.integer_bytes != 0 ? entry.integer_bytes : bytes_of_value(entry.type);
  for (std::uint32_t d = 0; d < entry.num_dims && bytes; ++d) bytes = checked_mul(*bytes, entry.shape[d]);
  return bytes;
}

} // namespace

expected<safetensors_file> safetensors_file::parse(std::span<const std::byte> bytes, std::string name) {
  const auto failure = [&](const std::string& rule) { return error(errc::invalid_file, name + ": " + rule); };
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) return failure("not a safetensors file: shorter than 8 bytes");
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const auto rest = bytes.subspan(sizeof(header_bytes));
  if (header_bytes > max_header_bytes || header_bytes > rest.size())
    return failure("header length " + std::to_string(header_bytes) +
                   " must be at most 100000000 and inside the file");
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), header_bytes);
  if (!text.starts_with('{')) return failure("header must begin with '{'");
  auto entries = parse_safetensors_header(text, name);
  if (!entries) return std::move(entries).error();

  const auto data = rest.subspan(header_bytes);
  std::sort(entries->begin(), entries->end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  safetensors_file file;
  file.tensors_.reserve(entries->size());
  std::uint64_t position = 0;
  for (auto& entry : *entries) {
    const std::string where = "tensor " + quote(entry.name) + " ";
    if (entry.begin != position)
      return failure(where + "must begin at " + std::to_string(position) +
                     ", where the one before ends, not at " + std::to_string(entry.begin));
    if (entry.end < entry.begin || entry.end > data.size())
      return failure(where + "must end between its begin and the end of the file");
    const auto implied = implied_bytes(entry);
    if (!implied || *implied != entry.end - entry.begin)
      return failure(where + "has " + std::to_string(entry.end - entry.begin) +
                     " bytes, which is not what dtype and shape imply");
    position = entry.end;
    file.tensors_.push_back({std::move(entry.name), entry.shape, entry.num_dims, entry.type,
                             entry.integer_bytes, data.subspan(entry.begin, entry.end - entry.begin)});
  }
  if (position != data.size())
    return failure("tensor data must end with the file: " + std::to_string(data.size() - position) +
                   " bytes belong to no tensor");
  file.name_ = std::move(name);
  file.file_bytes_ = bytes.size();
  return file;
}

expected<safetensors_file> safetensors_file::open(const std::filesystem::path& path) {
  auto from = partial_file::open(path);
  if (!from) return std::move(from).error();
  const auto bytes = (*from)->bytes();
  std::uint64_t header_bytes = 0;
  const auto length = bytes.first(std::min(bytes.size(), sizeof(header_bytes)));
  if (auto read = (*from)->read(length); !read) return std::move(read).error();
  std::memcpy(&header_bytes, length.data(), length.size());
  if (header_bytes <= max_header_bytes && header_bytes <= bytes.size() - length.size())
    if (auto read = (*from)->read(bytes.subspan(length.size(), header_bytes)); !read)
      return std::move(read).error();
  auto file = parse(bytes, path.string());
  if (file) file->from_ = std::move(from).value();
  return file;
}

} // namespace paceline::model
