#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/loader/text_part.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

/// One metadata key, or one member of config.json.
struct metadata_report {
  std::string key;
  std::string type; ///< of the value, or of an array's elements
  bool is_array = false;
  std::uint64_t count = 1;         ///< elements of an array; 1 for other values
  std::vector<std::string> values; ///< as JSON; for an array at most the first 8
};

/// One tensor of the files.
struct tensor_report {
  std::string name;
  std::string type;                 ///< "F16", "Q4_K", "I64", "BOOL"
  std::vector<std::uint64_t> shape; ///< outermost first: [rows, cols] for a matrix
  std::uint64_t num_bytes = 0;
};

/// The memory that a model needs to run. engine/memory_plan.hpp plans how much an engine allocates.
struct memory_estimate {
  std::uint64_t weights_bytes = 0;
  paceline::kv_type kv_type = paceline::kv_type::f16;
  std::uint64_t kv_bytes_per_token = 0; ///< over all layers, keys and values of that type
  std::uint32_t context_length = 0;     ///< tokens in a sequence, as requested
  std::uint32_t num_sequences = 0;      ///< sequences at the same time, as requested
  std::uint64_t state_bytes = 0;        ///< of one slot of a recurrent state; 0: the model has none
  std::uint64_t kv_bytes = 0;           ///< for all these sequences at full length
  std::uint64_t total_bytes = 0;
};

/// Facts about a draft head (heads/files/head_report.hpp).
struct head_facts {
  struct fact {
    std::string name;
    std::string value; ///< as JSON
  };
  std::string kind; ///< kind of drafter ("eagle3"); empty: the files are a model's
  std::vector<fact> facts;
};

/// Everything that `inspect` shows of a model file.
struct model_report {
  std::string path;
  std::string format; ///< "GGUF v3", "safetensors"
  std::uint32_t num_files = 1;
  std::uint64_t file_bytes = 0;
  std::uint64_t num_parameters = 0; ///< values in all tensors
  std::vector<metadata_report> metadata;
  std::vector<tensor_report> tensors;
  /// Number of `tensors` that belong to a module for multi-token prediction.
  std::uint64_t num_mtp_tensors = 0;
  skipped_tensors skipped;               ///< those of `tensors` that a language model does not use
  std::optional<model_config> config;    ///< nullopt if this build cannot run the model
  std::optional<memory_estimate> memory; ///< nullopt if this build cannot run the model
  std::string problem;                   ///< why the model cannot run; empty if it can
  head_facts head;
};

/// The KV memory to plan for.
struct memory_request {
  std::uint32_t context_length = 0; ///< 0: the model's own
  std::uint32_t num_sequences = 1;
  paceline::kv_type kv_type = paceline::kv_type::f16;
};

/// Memory for a model of `weights_bytes`. Saturates instead of overflowing.
memory_estimate estimate_memory(const model_config& config, std::uint64_t weights_bytes,
                                const memory_request& request);

/// Reports metadata and tensors only, without `config`, `memory`, `problem` and `head`. Reads a GGUF file, or
/// a directory of .safetensors files, with or without a config.json. Errors: a file that cannot be read or is
/// invalid.
expected<model_report> inspect_files(const std::filesystem::path& path);

/// Reports on a model: a GGUF file or a Hugging Face directory. Errors: an invalid GGUF container, or a
/// directory that cannot be opened as a model. If the model cannot run for another reason, `problem` has it.
expected<model_report> inspect_model(const std::filesystem::path& path, const memory_request& request = {});

std::string to_text(const model_report& report); ///< text in lines, for users
std::string to_json(const model_report& report); ///< one JSON object

} // namespace paceline::model
