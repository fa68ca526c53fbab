#include "tests/support/gguf_builder.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>

namespace paceline::test {

namespace {

using model::gguf_type;

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
std::vector<std::byte> scalar(T value) {
  std::vector<std::byte> out;
  append(out, value);
  return out;
}

template <class T>
std::vector<std::byte> array(gguf_type type, std::span<const T> values) {
  std::vector<std::byte> out;
  append(out, static_cast<std::uint32_t>(type));
  append<std::uint64_t>(out, values.size());
  for (const T& value : values) append(out, value);
  return out;
}

std::size_t padded(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

} // namespace

gguf_builder& gguf_builder::set_raw(std::string_view key, std::uint32_t type,
                                    std::span<const std::byte> payload) {
  const std::vector<std::byte> bytes(payload.begin(), payload.end());
  for (auto& entry : entries_)
    if (entry.key == key) {
      entry.type = type;
      entry.payload = bytes;
      return *this;
    }
  entries_.push_back({std::string(key), type, bytes});
  return *this;
}

gguf_builder& gguf_builder::set_uint16(std::string_view key, std::uint16_t value) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::uint16), scalar(value));
}

gguf_builder& gguf_builder::set_uint32(std::string_view key, std::uint32_t value) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::uint32), scalar(value));
}

gguf_builder& gguf_builder::set_uint64(std::string_view key, std::uint64_t value) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::uint64), scalar(value));
}

gguf_builder& gguf_builder::set_int32(std::string_view key, std::int32_t value) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::int32), scalar(value));
}

gguf_builder& gguf_builder::set_float32(std::string_view key, float value) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::float32), scalar(value));
}

gguf_builder& gguf_builder::set_bool(std::string_view key, bool value) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::boolean), scalar<std::uint8_t>(value ? 1 : 0));
}

gguf_builder& gguf_builder::set_string(std::string_view key, std::string_view value) {
  std::vector<std::byte> payload;
  append_string(payload, value);
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::string), payload);
}

gguf_builder& gguf_builder::set_strings(std::string_view key, std::span<const std::string> values) {
  std::vector<std::byte> payload;
  append(payload, static_cast<std::uint32_t>(gguf_type::string));
  append<std::uint64_t>(payload, values.size());
  for (const auto& value : values) append_string(payload, value);
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::array), payload);
}

gguf_builder& gguf_builder::set_float32s(std::string_view key, std::span<const float> values) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::array), array(gguf_type::float32, values));
}

gguf_builder& gguf_builder::set_int32s(std::string_view key, std::span<const std::int32_t> values) {
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::array), array(gguf_type::int32, values));
}

gguf_builder& gguf_builder::set_bools(std::string_view key, const std::vector<bool>& values) {
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return set_raw(key, static_cast<std::uint32_t>(gguf_type::array),
                 array(gguf_type::boolean, std::span<const std::uint8_t>(bytes)));
}

gguf_builder& gguf_builder::remove(std::string_view key) {
  std::erase_if(entries_, [&](const entry& e) { return e.key == key; });
  return *this;
}

gguf_builder& gguf_builder::rename_keys(std::string_view from, std::string_view to) {
  for (entry& e : entries_)
    if (e.key.starts_with(from)) e.key.replace(0, from.size(), to);
  return *this;
}

gguf_builder& gguf_builder::add_tensor(std::string_view name, device::tensor_type type,
                                       std::vector<std::uint64_t> shape, std::vector<std::byte> data) {
  tensors_.push_back({std::string(name), type, std::move(shape), std::move(data)});
  return *this;
}

gguf_builder& gguf_builder::remove_tensor(std::string_view name) {
  std::erase_if(tensors_, [&](const tensor& t) { return t.name == name; });
  return *this;
}

gguf_builder& gguf_builder::rename_tensor(std::string_view from, std::string_view to) {
  for (tensor& t : tensors_)
    if (t.name == from) t.name = to;
  return *this;
}

std::vector<std::byte> gguf_builder::build_header() const {
  std::vector<std::byte> out;
  append<std::uint32_t>(out, 0x46554747);
  append(out, version);
  append<std::uint64_t>(out, tensors_.size());
  append<std::uint64_t>(out, entries_.size());
  for (const auto& entry : entries_) {
    append_string(out, entry.key);
    append(out, entry.type);
    out.insert(out.end(), entry.payload.begin(), entry.payload.end());
  }
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors_) {
    append_string(out, tensor.name);
    append(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const auto dim : tensor.shape) append(out, dim);
    append(out, static_cast<std::uint32_t>(tensor.type));
    append(out, offset);
    offset += padded(tensor.data.size(), alignment);
  }
  return out;
}

std::size_t gguf_builder::header_bytes() const { return build_header().size(); }

std::vector<std::byte> gguf_builder::build() const {
  auto out = build_header();
  out.resize(padded(out.size(), alignment));
  for (const auto& tensor : tensors_) {
    out.insert(out.end(), tensor.data.begin(), tensor.data.end());
    out.resize(padded(out.size(), alignment));
  }
  return out;
}

void gguf_builder::write(const std::filesystem::path& path) const {
  const auto bytes = build();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

} // namespace paceline::test
