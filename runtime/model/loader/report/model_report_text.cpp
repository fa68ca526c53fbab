#include "runtime/model/loader/report/model_report.hpp"
#include "runtime/model/loader/report/report_text.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>

namespace paceline::model {

namespace {

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string out;
  for (const auto dim : shape) {
    out += out.empty() ? "" : " x ";
    out += std::to_string(dim);
  }
  return out.empty() ? "scalar" : out;
}

/// One line of a list: `text` padded to `width` columns.
std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  out.resize(std::max(width, out.size()), ' ');
  return out;
}

std::string value_text(const metadata_report& entry) {
  constexpr std::size_t max_shown = 100;
  if (!entry.is_array) return shortened(entry.values.front(), max_shown);
  std::string list = "[";
  for (const auto& value : entry.values) {
    list += list.size() == 1 ? "" : ", ";
    list += shortened(value, max_shown / 2);
  }
  list += entry.values.size() < entry.count ? ", ...] (" : "] (";
  return list + std::to_string(entry.count) + " of " + entry.type + ")";
}

std::string memory_text(const memory_estimate& estimate) {
  std::string out = "memory\n";
  out += "  weights           " + size_text(estimate.weights_bytes) + "\n";
  std::string label = "KV a token (" + std::string(traits_of(estimate.kv_type).name) + ")";
  label.resize(18, ' ');
  out += "  " + label + std::to_string(estimate.kv_bytes_per_token) + " bytes\n";
  out += "  KV                " + size_text(estimate.kv_bytes) + " (" +
         std::to_string(estimate.num_sequences) + " sequences of " + std::to_string(estimate.context_length) +
         " tokens)\n";
  if (estimate.state_bytes != 0)
    out +=
        "  a state           " + size_text(estimate.state_bytes) + " (one for each row of a verification)\n";
  out += "  total             " + size_text(estimate.total_bytes) + "\n";
  return out;
}

std::string head_text(const head_facts& head) {
  std::size_t width = std::string_view("kind").size();
  for (const auto& fact : head.facts) width = std::max(width, fact.name.size());
  std::string out = "draft head\n  " + padded("kind", width) + "  " + head.kind + "\n";
  for (const auto& fact : head.facts) out += "  " + padded(fact.name, width) + "  " + fact.value + "\n";
  return out;
}

/// Appends members of a JSON object.
class json_object_writer {
 public:
  void raw(std::string_view key, std::string_view value) {
    text_ += text_.size() == 1 ? "" : ",";
    text_ += json_string(key);
    text_ += ":";
    text_ += value;
  }
  void string(std::string_view key, std::string_view value) { raw(key, json_string(value)); }
  void number(std::string_view key, std::uint64_t value) { raw(key, std::to_string(value)); }
  std::string finish() { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

template <class Range, class Function>
std::string json_array(const Range& range, Function text_of) {
  std::string out = "[";
  for (const auto& element : range) {
    out += out.size() == 1 ? "" : ",";
    out += text_of(element);
  }
  return out + "]";
}

std::string metadata_json(const metadata_report& entry) {
  json_object_writer out;
  out.string("key", entry.key);
  out.string("type", entry.type);
  if (entry.is_array) {
    out.number("count", entry.count);
    out.raw("values", json_array(entry.values, [](const auto& value) { return value; }));
  } else {
    out.raw("value", entry.values.front());
  }
  return out.finish();
}

std::string tensor_json(const tensor_report& tensor) {
  json_object_writer out;
  out.string("name", tensor.name);
  out.string("type", tensor.type);
  out.raw("shape", json_array(tensor.shape, [](auto dim) { return std::to_string(dim); }));
  out.number("bytes", tensor.num_bytes);
  return out.finish();
}

/// The numbers of rows for which the report states the expected number of experts.
constexpr std::uint32_t told_rows[] = {1, 2, 3, 4, 5, 8, 16, 32};

std::string expected_text(const expert_config& experts, std::uint32_t num_rows) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << expected_experts(experts, num_rows);
  return out.str();
}

std::string experts_text(const model_config& config) {
  const device::expert_routing& routing = config.experts.routing;
  std::string rows = "  rows of a pass         ", experts = "  experts that it reads  ";
  for (const std::uint32_t num_rows : told_rows) {
    rows += padded(std::to_string(num_rows), 7);
    experts += padded(expected_text(config.experts, num_rows), 7);
  }
  return "experts\n  " + std::to_string(routing.num_experts) + " in each of " +
         std::to_string(config.num_expert_layers()) + " layers; a row uses " +
         std::to_string(routing.num_used) + "\n" + rows + "\n" + experts +
         "(expected, if rows choose independently and evenly)\n";
}

std::string experts_json(const model_config& config) {
  json_object_writer expected;
  for (const std::uint32_t rows : told_rows)
    expected.raw(std::to_string(rows), expected_text(config.experts, rows));
  json_object_writer out;
  out.number("num_experts", config.experts.routing.num_experts);
  out.number("num_used", config.experts.routing.num_used);
  out.number("ffn_size", config.experts.ffn_size);
  out.number("num_layers", config.num_expert_layers());
  out.raw("expected_by_rows", expected.finish());
  return out.finish();
}

std::string config_json(const model_config& config) {
  json_object_writer out;
  out.string("architecture", to_string(config.arch));
  out.number("vocab_size", config.vocab_size);
  out.number("context_length", config.context_length);
  out.number("hidden_size", config.hidden_size);
  out.number("num_layers", config.num_layers);
  out.number("num_heads", config.num_heads);
  out.number("num_kv_heads", config.num_kv_heads);
  out.number("head_dim", config.head_dim);
  out.number("ffn_size", config.ffn_size);
  out.number("sliding_window", config.sliding_window);
  out.raw("tied_embeddings", config.tied_embeddings ? "true" : "false");
  out.number("mtp_modules", config.num_mtp_modules);
  out.raw("experts", config.num_expert_layers() == 0 ? "null" : experts_json(config));
  return out.finish();
}

std::string head_json(const head_facts& head) {
  json_object_writer out;
  out.string("kind", head.kind);
  for (const auto& fact : head.facts) out.raw(fact.name, fact.value);
  return out.finish();
}

std::string skipped_json(const skipped_tensors& skipped) {
  json_object_writer out;
  out.number("num_tensors", skipped.num_tensors);
  out.number("num_bytes", skipped.num_bytes);
  return out.finish();
}

std::string memory_json(const memory_estimate& estimate) {
  json_object_writer out;
  out.number("weights_bytes", estimate.weights_bytes);
  out.string("kv_dtype", traits_of(estimate.kv_type).name);
  out.number("kv_bytes_per_token", estimate.kv_bytes_per_token);
  out.number("context_length", estimate.context_length);
  out.number("num_sequences", estimate.num_sequences);
  out.number("kv_bytes", estimate.kv_bytes);
  if (estimate.state_bytes != 0) out.number("state_bytes", estimate.state_bytes);
  out.number("total_bytes", estimate.total_bytes);
  return out.finish();
}

} // namespace

std::string to_text(const model_report& report) {
  std::string out = report.path + ": " + report.format + ", " + std::to_string(report.num_files) + " file" +
                    (report.num_files == 1 ? "" : "s") + ", " + size_text(report.file_bytes) + ", " +
                    std::to_string(report.num_parameters) + " parameters\n";
  if (!report.problem.empty()) out += "cannot run: " + report.problem + "\n";
  if (report.skipped.num_tensors != 0) out += to_text(report.skipped) + "\n";
  if (report.config && report.num_mtp_tensors != 0)
    out += "has a module for multi-token prediction: a drafter of kind mtp without a path uses it\n";
  if (!report.head.kind.empty()) out += "\n" + head_text(report.head);
  std::size_t key_width = 0;
  for (const auto& entry : report.metadata) key_width = std::max(key_width, entry.key.size());
  out += "\nmetadata\n";
  for (const auto& entry : report.metadata)
    out += "  " + padded(entry.key, std::min<std::size_t>(key_width, 48)) + "  " + value_text(entry) + "\n";
  std::size_t name_width = 0;
  for (const auto& tensor : report.tensors) name_width = std::max(name_width, tensor.name.size());
  out += "\ntensors\n";
  for (const auto& tensor : report.tensors)
    out += "  " + padded(tensor.name, std::min<std::size_t>(name_width, 64)) + "  " + padded(tensor.type, 6) +
           "  " + padded(shape_text(tensor.shape), 16) + "  " + size_text(tensor.num_bytes) + "\n";
  if (report.config && report.config->num_expert_layers() != 0) out += "\n" + experts_text(*report.config);
  if (report.memory) out += "\n" + memory_text(*report.memory);
  return out;
}

std::string to_json(const model_report& report) {
  json_object_writer out;
  out.string("path", report.path);
  out.string("format", report.format);
  out.number("num_files", report.num_files);
  out.number("file_bytes", report.file_bytes);
  out.number("num_parameters", report.num_parameters);
  out.raw("config", report.config ? config_json(*report.config) : "null");
  out.raw("memory", report.memory ? memory_json(*report.memory) : "null");
  out.raw("head", report.head.kind.empty() ? "null" : head_json(report.head));
  out.raw("skipped", report.skipped.num_tensors == 0 ? "null" : skipped_json(report.skipped));
  out.raw("problem", report.problem.empty() ? "null" : json_string(report.problem));
  out.raw("metadata", json_array(report.metadata, metadata_json));
  out.raw("tensors", json_array(report.tensors, tensor_json));
  return out.finish();
}

} // namespace paceline::model
