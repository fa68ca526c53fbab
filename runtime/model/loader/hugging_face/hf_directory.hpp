#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/model/loader/hugging_face/hf_tokenizer_settings.hpp"
#include "runtime/model/loader/hugging_face/safetensors_file.hpp"
#include "runtime/model/loader/weights/fp8_weights.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

/// A model in the layout of the Hugging Face hub: config.json with model.safetensors, or with the shards
/// listed in model.safetensors.index.json. Optional files: tokenizer.json, tokenizer_config.json,
/// generation_config.json and chat_template.jinja.
struct hf_directory {
  std::string name;    ///< the directory, as given
  model_config config; ///< tied_embeddings is false if the files have a head that differs from the embedding
  std::optional<fp8_quantisation> quantisation; ///< nullopt: no FP8 weights
  hf_tokenizer_settings tokenizer;
  std::vector<token_id> eos_ids; ///< from generation_config.json and config.json; ascending, below vocab_size
  std::vector<safetensors_file> shards; ///< at least one; no tensor name occurs in two of them

  static expected<hf_directory> open(const std::filesystem::path& directory);

  std::uint64_t file_bytes() const noexcept; ///< of the shards
};

/// The files of a directory's weights: the shards listed in model.safetensors.index.json, or
/// model.safetensors, or the only .safetensors file there is. Error: `not_found`, or the first error of one
/// of the files.
expected<std::vector<safetensors_file>> open_weight_files(const std::filesystem::path& directory);

/// The weights of the language model of `directory`; tensors of vision and audio parts are skipped. The
/// result shares the shards' files.
expected<weights_source> read_hf_weights(const hf_directory& directory);

} // namespace paceline::model
