#include "runtime/model/loader/gguf/gguf_parser.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/checked_size.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

namespace paceline::model {

namespace {

constexpr std::uint32_t magic = 0x46554747;                       // "GGUF"
constexpr std::uint64_t min_entry_bytes = 8 + 1 + 4 + 1;          // name of one letter, type, one byte
constexpr std::uint64_t min_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8; // name of one letter, one dimension
constexpr std::uint64_t min_string_bytes = 8;
constexpr std::uint64_t max_name_bytes = 65535; // GGUF's limit for a key
constexpr std::uint64_t default_alignment = 32;
constexpr std::uint64_t max_alignment = 1 << 20;
constexpr std::uint64_t fetch_bytes = 1 << 20; // bytes read from the file at a time

// A list of parsed objects must not be larger than four times the bytes from which it was parsed.
static_assert(sizeof(gguf_entry) + sizeof(std::uint32_t) <= 4 * min_entry_bytes);
static_assert(sizeof(gguf_tensor) + sizeof(std::uint32_t) <= 4 * min_tensor_bytes);
static_assert(sizeof(std::string_view) <= 4 * min_string_bytes);

/// Names of existing formats that are not supported, for better messages.
std::string_view foreign_type_name(std::uint32_t type) noexcept {
  switch (type) {
  case 4:
    return "Q4_2";
  case 5:
    return "Q4_3";
  case 9:
    return "Q8_1";
  case 15:
    return "Q8_K";
  case 16:
    return "IQ2_XXS";
  case 17:
    return "IQ2_XS";
  case 18:
    return "IQ3_XXS";
  case 19:
    return "IQ1_S";
  case 21:
    return "IQ3_S";
  case 22:
    return "IQ2_S";
  case 24:
    return "I8";
  case 25:
    return "I16";
  case 28:
    return "F64";
  case 29:
    return "IQ1_M";
  case 34:
    return "TQ1_0";
  case 35:
    return "TQ2_0";
  case 39:
    return "MXFP4";
  default:
    return {};
  }
}

expected<device::tensor_type> tensor_type_of(std::uint32_t number, const std::string& where) {
  if (number < device::first_foreign_type) {
    const auto type = static_cast<device::tensor_type>(number);
    if (device::traits_of(type)) return type;
  }
  const auto name = foreign_type_name(number);
  if (name.empty())
    return error(errc::invalid_file, where + " type " + std::to_string(number) + " is no known tensor type");
  return error(errc::unsupported, where + " type " + std::string(name) + " is not supported");
}

/// The size in bytes of an integer of GGML's type `number`, or 0 if the type is not an integer.
std::uint8_t integer_bytes_of(std::uint32_t number) noexcept {
  constexpr std::uint32_t i32 = 26, i64 = 27;
  return number == i32 ? 4 : number == i64 ? 8 : 0;
}

/// The size of a tensor in bytes; nullopt if it does not fit into 64 bits.
std::optional<std::uint64_t> tensor_bytes(const gguf_tensor& tensor) noexcept {
  const auto traits = *device::traits_of(tensor.type);
  std::optional<std::uint64_t> bytes =
      tensor.integer_bytes != 0 ? checked_mul(tensor.shape[0], tensor.integer_bytes)
                                : checked_mul(tensor.shape[0] / traits.block_values, traits.block_bytes);
  // The number of values must also fit, as a signed number, because readers count values as well as bytes.
  std::optional<std::uint64_t> values = tensor.shape[0];
  for (std::uint32_t d = 1; d < tensor.num_dims; ++d) {
    if (bytes) bytes = checked_mul(*bytes, tensor.shape[d]);
    if (values) values = checked_mul(*values, tensor.shape[d]);
  }
  if (!values || *values > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return bytes;
}

} // namespace

gguf_parser::gguf_parser(std::span<const std::byte> bytes, std::string name) : bytes_(bytes) {
  file_.metadata_.file_name_ = std::move(name);
  file_.file_bytes_ = bytes.size();
}

expected<gguf_file> gguf_parser::parse(std::span<const std::byte> bytes, std::string name) {
  gguf_parser parser(bytes, std::move(name));
  if (auto done = parser.run(); !done) return std::move(done).error();
  return std::move(parser.file_);
}

expected<gguf_file> gguf_parser::parse(std::shared_ptr<const partial_file> from, std::string name) {
  gguf_parser parser(from->bytes(), std::move(name));
  parser.from_ = from.get();
  auto done = parser.run();
  if (parser.unread_) return std::move(*parser.unread_);
  if (!done) return std::move(done).error();
  parser.file_.files_.push_back(std::move(from));
  return std::move(parser.file_);
}

expected<void> gguf_parser::run() {
  if (auto ok = read_header(); !ok) return ok;
  if (auto ok = read_entries(); !ok) return ok;
  if (auto ok = index_entries(); !ok) return ok;
  if (auto ok = read_tensors(); !ok) return ok;
  if (auto ok = file_.index_tensors(); !ok) return ok;
  return place_tensors();
}

error gguf_parser::failure(const std::string& rule, errc code) const {
  return error(code, file_.name() + ": " + rule);
}

bool gguf_parser::fetch(std::uint64_t num_bytes) noexcept {
  if (num_bytes > remaining()) return false;
  if (from_ == nullptr || position_ + num_bytes <= fetched_) return true;
  const std::uint64_t wanted = std::max(position_ + num_bytes - fetched_, fetch_bytes);
  const auto part = bytes_.subspan(fetched_, std::min(wanted, bytes_.size() - fetched_));
  if (auto read = from_->read(part); !read) {
    if (!unread_) unread_ = std::move(read).error();
    return false;
  }
  fetched_ += part.size();
  return true;
}

template <class T>
std::optional<T> gguf_parser::read_number() noexcept {
  if (!fetch(sizeof(T))) return std::nullopt;
  T value;
  std::memcpy(&value, bytes_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return value;
}

std::optional<std::string_view> gguf_parser::read_string() noexcept {
  const auto length = read_number<std::uint64_t>();
  if (!length || !fetch(*length)) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + position_), *length);
  position_ += *length;
  return text;
}

expected<void> gguf_parser::read_header() {
  if (read_number<std::uint32_t>() != magic)
    return failure("not a GGUF file: it does not begin with \"GGUF\"");
  const auto version = read_number<std::uint32_t>();
  if (!version) return failure("header ends before the version");
  if (*version == 1) return failure("GGUF version 1 is not supported, only 2 and 3", errc::unsupported);
  if ((*version & 0xffffU) == 0 && *version != 0)
    return failure("big-endian GGUF is not supported", errc::unsupported);
  if (*version != 2 && *version != 3)
    return failure("GGUF version " + std::to_string(*version) + " is not supported, only 2 and 3",
                   errc::unsupported);
  const auto num_tensors = read_number<std::uint64_t>();
  const auto num_entries = read_number<std::uint64_t>();
  if (!num_tensors || !num_entries) return failure("header ends before the numbers of tensors and keys");
  if (*num_entries > remaining() / min_entry_bytes)
    return failure("number of metadata keys " + std::to_string(*num_entries) + " does not fit the file");
  if (*num_tensors > remaining() / min_tensor_bytes)
    return failure("number of tensors " + std::to_string(*num_tensors) + " does not fit the file");
  // Indices are 32 bits; a file that reaches this has more than 60 GB of names.
  if (*num_entries > std::numeric_limits<std::uint32_t>::max() ||
      *num_tensors > std::numeric_limits<std::uint32_t>::max())
    return failure("more than 2^32 metadata keys or tensors");
  file_.version_ = *version;
  num_tensors_ = *num_tensors;
  num_entries_ = *num_entries;
  return {};
}

expected<void> gguf_parser::read_entries() {
  auto& entries = file_.metadata_.entries_;
  entries.reserve(num_entries_);
  for (std::uint64_t i = 0; i < num_entries_; ++i) {
    auto entry = read_entry(i);
    if (!entry) return std::move(entry).error();
    entries.push_back(*entry);
  }
  return {};
}

expected<gguf_entry> gguf_parser::read_entry(std::uint64_t index) {
  gguf_entry entry;
  const auto key = read_string();
  if (!key) return failure("metadata key " + std::to_string(index) + ": name runs past the end of the file");
  if (key->empty() || key->size() > max_name_bytes)
    return failure("metadata key " + std::to_string(index) + ": name must have 1 to 65535 bytes");
  entry.key = *key;
  const auto type = read_number<std::uint32_t>();
  if (!type) return file_.metadata_.key_error(*key, "ends before its type");
  if (*type > static_cast<std::uint32_t>(gguf_type::float64))
    return file_.metadata_.key_error(*key, "has unknown type " + std::to_string(*type));
  entry.type = static_cast<gguf_type>(*type);
  if (entry.type == gguf_type::array) {
    if (auto ok = read_array(entry); !ok) return std::move(ok).error();
    return entry;
  }
  if (entry.type == gguf_type::string) {
    const auto text = read_string();
    if (!text) return file_.metadata_.key_error(*key, "has a string that runs past the end of the file");
    entry.data = reinterpret_cast<const std::byte*>(text->data());
    entry.count = text->size();
    return entry;
  }
  if (!fetch(size_of(entry.type))) return file_.metadata_.key_error(*key, "runs past the end of the file");
  entry.data = bytes_.data() + position_;
  position_ += size_of(entry.type);
  if (entry.type == gguf_type::boolean && std::to_integer<unsigned>(*entry.data) > 1)
    return file_.metadata_.key_error(*key, "must be 0 or 1, as a bool");
  return entry;
}

expected<void> gguf_parser::read_array(gguf_entry& entry) {
  auto& metadata = file_.metadata_;
  const auto type = read_number<std::uint32_t>();
  const auto count = read_number<std::uint64_t>();
  if (!type || !count) return metadata.key_error(entry.key, "ends before its array's type and length");
  if (*type > static_cast<std::uint32_t>(gguf_type::float64))
    return metadata.key_error(entry.key, "is an array of unknown type " + std::to_string(*type));
  entry.type = static_cast<gguf_type>(*type);
  entry.is_array = true;
  entry.count = *count;
  if (entry.type == gguf_type::array)
    return metadata.key_error(entry.key, "is an array of arrays, which is not supported", errc::unsupported);
  const std::uint64_t element_bytes =
      entry.type == gguf_type::string ? min_string_bytes : size_of(entry.type);
  if (*count > remaining() / element_bytes)
    return metadata.key_error(entry.key, "is an array of " + std::to_string(*count) +
                                             " elements, which runs past the end of the file");
  entry.data = bytes_.data() + position_;
  if (entry.type != gguf_type::string) {
    if (!fetch(*count * element_bytes)) return metadata.key_error(entry.key, "runs past the end of the file");
    position_ += *count * element_bytes;
    return {};
  }
  std::vector<std::string_view> strings;
  strings.reserve(*count);
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto text = read_string();
    if (!text)
      return metadata.key_error(entry.key, "element " + std::to_string(i) + " runs past the end of the file");
    strings.push_back(*text);
  }
  entry.strings_index = static_cast<std::uint32_t>(metadata.strings_.size());
  metadata.strings_.push_back(std::move(strings));
  return {};
}

expected<void> gguf_parser::index_entries() {
  auto& metadata = file_.metadata_;
  auto& order = metadata.by_key_;
  const auto key = [&](std::uint32_t i) { return metadata.entries_[i].key; };
  order.resize(metadata.entries_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(order.begin(), order.end(),
                                        [&](std::uint32_t a, std::uint32_t b) { return key(a) == key(b); });
  if (twice != order.end()) return metadata.key_error(key(*twice), "occurs twice");
  return {};
}

expected<void> gguf_parser::read_tensors() {
  if (num_tensors_ > remaining() / min_tensor_bytes)
    return failure("number of tensors " + std::to_string(num_tensors_) + " does not fit the file");
  file_.tensors_.reserve(num_tensors_);
  pending_.reserve(num_tensors_);
  for (std::uint64_t i = 0; i < num_tensors_; ++i) {
    auto tensor = read_tensor(i);
    if (!tensor) return std::move(tensor).error();
    file_.tensors_.push_back(tensor->first);
    pending_.push_back(tensor->second);
  }
  return {};
}

expected<std::pair<gguf_tensor, gguf_parser::pending_tensor>> gguf_parser::read_tensor(std::uint64_t index) {
  gguf_tensor tensor;
  pending_tensor pending;
  const auto name = read_string();
  if (!name) return failure("tensor " + std::to_string(index) + ": name runs past the end of the file");
  if (name->empty() || name->size() > max_name_bytes)
    return failure("tensor " + std::to_string(index) + ": name must have 1 to 65535 bytes");
  tensor.name = *name;
  const std::string where = "tensor " + quote(*name) + ":";
  const auto num_dims = read_number<std::uint32_t>();
  if (!num_dims || *num_dims < 1 || *num_dims > tensor.shape.size())
    return failure(where + " must have 1 to 4 dimensions");
  tensor.num_dims = *num_dims;
  for (std::uint32_t d = 0; d < *num_dims; ++d) {
    const auto dim = read_number<std::uint64_t>();
    if (!dim || *dim == 0) return failure(where + " dimension " + std::to_string(d) + " must be at least 1");
    tensor.shape[d] = *dim;
  }
  const auto type_number = read_number<std::uint32_t>();
  const auto offset = read_number<std::uint64_t>();
  if (!type_number || !offset) return failure(where + " type and offset run past the end of the file");
  tensor.integer_bytes = integer_bytes_of(*type_number);
  if (tensor.integer_bytes == 0) {
    auto type = tensor_type_of(*type_number, file_.name() + ": " + where);
    if (!type) return std::move(type).error();
    tensor.type = *type;
  }
  const auto traits = *device::traits_of(tensor.type);
  if (tensor.shape[0] % traits.block_values != 0)
    return failure(where + " rows of " + std::to_string(tensor.shape[0]) +
                   " values are not whole blocks of " + std::string(traits.name) + " (" +
                   std::to_string(traits.block_values) + " values)");
  const auto num_bytes = tensor_bytes(tensor);
  if (!num_bytes) return failure(where + " its size overflows");
  pending = {*offset, *num_bytes};
  return std::pair(tensor, pending);
}

expected<std::uint64_t> gguf_parser::alignment() const {
  constexpr std::string_view key = "general.alignment";
  const auto* entry = file_.metadata_.find(key);
  if (entry && (entry->is_array || entry->type != gguf_type::uint32))
    return file_.metadata_.key_error(key, "must be a uint32");
  auto value = file_.metadata_.find_uint(key, 8, max_alignment);
  if (!value) return std::move(value).error();
  const auto alignment = value->value_or(default_alignment);
  if (!std::has_single_bit(alignment)) return file_.metadata_.key_error(key, "must be a power of two");
  return alignment;
}

expected<void> gguf_parser::place_tensors() {
  auto align = alignment();
  if (!align) return std::move(align).error();
  if (file_.tensors_.empty()) return {};
  const auto data_begin = checked_align(position_, *align);
  if (!data_begin || *data_begin > bytes_.size()) return failure("file ends before the tensor data");
  const auto data = bytes_.subspan(*data_begin);
  const auto where = [&](std::size_t i) { return "tensor " + quote(file_.tensors_[i].name) + ":"; };
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const auto [offset, num_bytes] = pending_[i];
    if (offset % *align != 0)
      return failure(where(i) + " offset " + std::to_string(offset) + " is not a multiple of the alignment " +
                     std::to_string(*align));
    const auto end = checked_add(offset, num_bytes);
    if (!end || *end > data.size())
      return failure(where(i) + " " + std::to_string(num_bytes) + " bytes at offset " +
                     std::to_string(offset) + " run past the end of the file");
    file_.tensors_[i].data = data.subspan(offset, num_bytes);
  }
  std::vector<std::uint32_t> order(pending_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return pending_[a].offset < pending_[b].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto& before = pending_[order[i - 1]];
    if (before.offset + before.num_bytes > pending_[order[i]].offset)
      return failure(where(order[i]) + " overlaps tensor " + quote(file_.tensors_[order[i - 1]].name));
  }
  return {};
}

} // namespace paceline::model
