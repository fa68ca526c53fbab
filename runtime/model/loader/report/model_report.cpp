#include "runtime/model/loader/report/model_report.hpp"

#include "runtime/model/kv_cells.hpp"
#include "runtime/model/loader/checked_size.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/hugging_face/hf_directory.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/loader/report/report_text.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

namespace paceline::model {

namespace {

namespace json = boost::json;

constexpr std::size_t max_array_values = 8;

std::string number_text(const gguf_numbers& numbers, std::size_t index) {
  if (numbers.type() == gguf_type::boolean) return *numbers.as_uint(index) != 0 ? "true" : "false";
  if (numbers.type() == gguf_type::float32) return json_number(static_cast<float>(numbers.as_double(index)));
  if (!numbers.is_integer()) return json_number(numbers.as_double(index));
  if (const auto value = numbers.as_int(index)) return std::to_string(*value);
  return std::to_string(*numbers.as_uint(index));
}

metadata_report report_entry(const gguf_metadata& metadata, const gguf_entry& entry) {
  metadata_report out{utf8_text(entry.key), std::string(to_string(entry.type)), entry.is_array, 1, {}};
  if (entry.is_array) out.count = entry.count;
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(out.count, max_array_values));
  for (std::size_t i = 0; i < shown; ++i) {
    if (entry.type != gguf_type::string)
      out.values.push_back(number_text(gguf_metadata::numbers_of(entry), i));
    else if (entry.is_array)
      out.values.push_back(json_string(metadata.strings_of(entry)[i]));
    else
      out.values.push_back(json_string({reinterpret_cast<const char*>(entry.data), entry.count}));
  }
  return out;
}

metadata_report report_member(std::string_view key, const json::value& value) {
  metadata_report out;
  out.key = utf8_text(key);
  if (const auto* array = value.if_array()) {
    out.type =
        array->empty() ? "value" : std::string(std::string_view(json::to_string(array->front().kind())));
    out.is_array = true;
    out.count = array->size();
    for (std::size_t i = 0; i < std::min(array->size(), max_array_values); ++i)
      out.values.push_back(json::serialize((*array)[i]));
  } else {
    out.type = std::string(std::string_view(json::to_string(value.kind())));
    out.values.push_back(json::serialize(value));
  }
  return out;
}

/// The name of the integer type with so many bytes. Files contain only one type of each size.
std::string_view name_of_integers(std::uint8_t bytes) noexcept {
  return bytes == 8 ? "I64" : bytes == 4 ? "I32" : "BOOL";
}

void add_tensor(model_report& report, std::string_view name, device::tensor_type type,
                std::uint8_t integer_bytes, std::vector<std::uint64_t> shape, std::uint64_t num_bytes) {
  std::uint64_t values = 1;
  for (const auto dim : shape) values *= dim; // cannot overflow: the container's parser has checked it
  report.num_parameters += values;
  report.tensors.push_back(
      {utf8_text(name),
       std::string(integer_bytes != 0 ? name_of_integers(integer_bytes) : device::traits_of(type)->name),
       std::move(shape), num_bytes});
}

/// Adds the parts of the report that need a supported model.
template <class File, class ReadWeights>
void add_plan(model_report& report, const File& file, expected<model_config> config, ReadWeights read_weights,
              const memory_request& request) {
  if (!config) {
    report.problem = config.error().message();
    return;
  }
  const auto weights = read_weights(file, *config);
  if (!weights) {
    report.problem = weights.error().message();
    return;
  }
  report.memory = estimate_memory(*config, weights->total_bytes(), request);
  report.num_mtp_tensors = weights->num_mtp_tensors();
  report.config = std::move(config).value();
}

model_report report_file(const std::filesystem::path& path, const gguf_file& file) {
  model_report report;
  report.path = path.string();
  report.format = "GGUF v" + std::to_string(file.version());
  report.num_files = file.num_parts();
  report.file_bytes = file.file_bytes();
  for (const auto& entry : file.metadata().entries())
    report.metadata.push_back(report_entry(file.metadata(), entry));
  for (const auto& tensor : file.tensors()) {
    std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims);
    std::reverse(shape.begin(), shape.end());
    add_tensor(report, tensor.name, tensor.type, tensor.integer_bytes, std::move(shape), tensor.data.size());
    if (is_beside_text(tensor.name, tensor_naming::gguf)) report.skipped.add(tensor.name, tensor.data.size());
  }
  return report;
}

expected<model_report> report_directory(const std::filesystem::path& path,
                                        std::span<const safetensors_file> shards) {
  model_report report;
  report.path = path.string();
  report.format = "safetensors";
  report.num_files = static_cast<std::uint32_t>(shards.size());
  std::error_code ignored;
  if (std::filesystem::exists(path / "config.json", ignored)) {
    const auto config = read_json_file(path / "config.json");
    if (!config) return config.error();
    for (const auto& member : *config)
      report.metadata.push_back(report_member({member.key().data(), member.key().size()}, member.value()));
  }
  for (const auto& shard : shards) {
    report.file_bytes += shard.file_bytes();
    for (const auto& tensor : shard.tensors()) {
      add_tensor(report, tensor.name, tensor.type, tensor.integer_bytes,
                 {tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims}, tensor.data.size());
      if (is_beside_text(tensor.name, tensor_naming::hugging_face))
        report.skipped.add(tensor.name, tensor.data.size());
    }
  }
  return report;
}

expected<model_report> inspect_gguf(const std::filesystem::path& path, const memory_request& request) {
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  model_report report = report_file(path, *file);
  add_plan(report, *file, read_gguf_config(*file), read_gguf_weights, request);
  return report;
}

expected<model_report> inspect_directory(const std::filesystem::path& path, const memory_request& request) {
  const auto directory = hf_directory::open(path);
  if (!directory) return directory.error();
  auto report = report_directory(path, directory->shards);
  if (!report) return report;
  const auto read_weights = [](const hf_directory& file, const model_config&) {
    return read_hf_weights(file);
  };
  add_plan(*report, *directory, expected<model_config>(directory->config), read_weights, request);
  return report;
}

bool names_directory(const std::filesystem::path& path) {
  std::error_code ignored; // a path that cannot be examined fails to open, with a reason
  return std::filesystem::is_directory(path, ignored);
}

std::uint64_t saturated(std::optional<std::uint64_t> value) noexcept {
  return value.value_or(std::numeric_limits<std::uint64_t>::max());
}

} // namespace

memory_estimate estimate_memory(const model_config& config, std::uint64_t weights_bytes,
                                const memory_request& request) {
  const kv_shape shape = shape_of_cells(config, request.kv_type);
  memory_estimate estimate;
  estimate.weights_bytes = weights_bytes;
  estimate.kv_type = request.kv_type;
  estimate.kv_bytes_per_token = shape.bytes_per_token();
  estimate.state_bytes = shape.states.bytes();
  estimate.context_length = request.context_length == 0 ? config.context_length : request.context_length;
  estimate.num_sequences = request.num_sequences;
  const std::uint64_t tokens = std::uint64_t{estimate.context_length} * estimate.num_sequences;
  estimate.kv_bytes = saturated(checked_mul(tokens, estimate.kv_bytes_per_token));
  // One before a round, one after it, and one for a snapshot: scheduling::least_state_slots(0).
  constexpr std::uint64_t states = 3;
  const std::uint64_t of_states =
      saturated(checked_mul(states * estimate.num_sequences, estimate.state_bytes));
  estimate.total_bytes =
      saturated(checked_add(saturated(checked_add(estimate.kv_bytes, weights_bytes)), of_states));
  return estimate;
}

expected<model_report> inspect_files(const std::filesystem::path& path) {
  if (names_directory(path)) {
    const auto shards = open_weight_files(path);
    if (!shards) return shards.error();
    return report_directory(path, *shards);
  }
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  return report_file(path, *file);
}

expected<model_report> inspect_model(const std::filesystem::path& path, const memory_request& request) {
  return names_directory(path) ? inspect_directory(path, request) : inspect_gguf(path, request);
}

} // namespace paceline::model
