#include "runtime/model/loader/gguf/gguf_file.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/gguf/gguf_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <optional>
#include <utility>

namespace paceline::model {

namespace {

constexpr std::string_view split_no = "split.no";
constexpr std::string_view split_count = "split.count";
constexpr std::string_view split_tensors = "split.tensors.count";
constexpr std::uint64_t max_parts = 65535; // GGUF stores the count in 16 bits

/// "dir/x-00002-of-00003.gguf" is part 2 of 3 of "dir/x".
struct part_name {
  std::string prefix;
  std::uint64_t number = 0; ///< from 1
  std::uint64_t count = 0;

  std::string of(std::uint64_t part) const {
    std::array<char, 48> tail;
    std::snprintf(tail.data(), tail.size(), "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(part),
                  static_cast<unsigned long long>(count));
    return prefix + tail.data();
  }
};

std::optional<part_name> parse_part_name(const std::string& path) {
  constexpr std::size_t tail = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= tail) return std::nullopt;
  part_name name{path.substr(0, path.size() - tail)};
  const std::string_view rest = std::string_view(path).substr(name.prefix.size());
  std::from_chars(rest.data() + 1, rest.data() + 6, name.number);
  std::from_chars(rest.data() + 10, rest.data() + 15, name.count);
  if (name.of(name.number) != path) return std::nullopt;
  return name;
}

/// Number of parts of the model to which this file belongs; 1 if it is not split.
expected<std::uint64_t> num_parts_of(const gguf_metadata& metadata) {
  auto count = metadata.find_uint(split_count, 0, max_parts);
  if (!count) return std::move(count).error();
  return std::max<std::uint64_t>(1, count->value_or(1));
}

expected<gguf_file> open_one(const std::string& path) {
  auto file = partial_file::open(path);
  if (!file) return std::move(file).error();
  return gguf_parser::parse(*file, path);
}

} // namespace

const gguf_tensor* gguf_file::find_tensor(std::string_view name) const noexcept {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  if (at == by_name_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

expected<void> gguf_file::index_tensors() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  const auto twice =
      std::adjacent_find(by_name_.begin(), by_name_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return tensors_[a].name == tensors_[b].name;
      });
  if (twice != by_name_.end())
    return error(errc::invalid_file, name() + ": tensor " + quote(tensors_[*twice].name) + " occurs twice");
  return {};
}

void gguf_file::append_part(gguf_file part) {
  tensors_.insert(tensors_.end(), part.tensors_.begin(), part.tensors_.end());
  files_.insert(files_.end(), part.files_.begin(), part.files_.end());
  file_bytes_ += part.file_bytes_;
  ++num_parts_;
}

expected<gguf_file> gguf_file::parse(std::span<const std::byte> bytes, std::string name) {
  auto file = gguf_parser::parse(bytes, std::move(name));
  if (!file) return file;
  auto count = num_parts_of(file->metadata());
  if (!count) return std::move(count).error();
  if (*count != 1) return file->metadata().key_error(split_count, "must be 1 here: a part alone is no model");
  return file;
}

expected<gguf_file> gguf_file::open(const std::filesystem::path& path) {
  auto given = open_one(path.string());
  if (!given) return given;
  auto count = num_parts_of(given->metadata());
  if (!count) return std::move(count).error();
  if (*count == 1) return given;

  const auto name = parse_part_name(path.string());
  if (!name || name->count != *count)
    return given->metadata().key_error(split_count, "says " + std::to_string(*count) +
                                                        " parts; the file's name must end in "
                                                        "-NNNNN-of-NNNNN.gguf with that count");
  std::optional<gguf_file> whole;
  for (std::uint64_t number = 1; number <= *count; ++number) {
    auto part = open_one(name->of(number));
    if (!part) return std::move(part).error().within("part " + std::to_string(number) + " of a split model");
    if (auto no = part->metadata().require_uint(split_no, number - 1, number - 1); !no)
      return std::move(no).error();
    if (auto n = part->metadata().require_uint(split_count, *count, *count); !n) return std::move(n).error();
    if (!whole)
      whole.emplace(std::move(part).value());
    else
      whole->append_part(std::move(part).value());
  }
  const auto num_tensors = whole->tensors().size();
  if (auto n = whole->metadata().find_uint(split_tensors, num_tensors, num_tensors); !n)
    return std::move(n).error();
  if (auto indexed = whole->index_tensors(); !indexed) return std::move(indexed).error();
  return std::move(*whole);
}

} // namespace paceline::model
