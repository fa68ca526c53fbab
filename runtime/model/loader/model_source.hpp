#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/hugging_face/hf_directory.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"
#include "runtime/model/model_config.hpp"
#include "runtime/tokenizer/vocabulary.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::model {

/// An opened GGUF file or Hugging Face directory.
using model_file = std::variant<gguf_file, hf_directory>;

/// Everything that is read from a model when it is loaded: configuration, weights and tokenizer.
struct model_source {
  std::string name; ///< the path given to `open_model`, for messages
  model_config config;
  weights_source weights;
  /// From a GGUF file, if it has one. A Hugging Face directory has `tokenizer` instead.
  std::optional<tokenizer::vocabulary_data> vocabulary;
  /// From a Hugging Face directory. The tokenizer is made from the file `tokenizer_json`.
  std::optional<hf_tokenizer_settings> tokenizer;
  std::vector<token_id> eos_ids; ///< ids that end a generation; ascending, below config.vocab_size
  std::string chat_template;     ///< Jinja source; empty if the file has none
  model_file file;               ///< for `inspect`
};

/// Opens a GGUF file (any part of a split one) or a Hugging Face directory. Reads headers and small tensors
/// only; weights are read when they are used. An error names the file, the field or tensor, and the rule that
/// it breaks.
expected<model_source> open_model(const std::filesystem::path& path);

} // namespace paceline::model
