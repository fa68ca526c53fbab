#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

/// The tokenizer settings that a Hugging Face directory has in other files than tokenizer.json.
struct hf_tokenizer_settings {
  std::filesystem::path tokenizer_json; ///< empty if there is none
  std::string chat_template;            ///< Jinja source; empty if there is none
  std::optional<std::string> bos_token, eos_token, unk_token, pad_token; ///< spellings
  std::optional<bool> add_bos, add_eos; ///< nullopt: as in tokenizer.json's post-processor
};

/// Reads tokenizer_config.json and chat_template.jinja if they exist, and chat_template.json if neither has a
/// template.
expected<hf_tokenizer_settings> read_hf_tokenizer_settings(const std::filesystem::path& directory);

/// Reads "eos_token_id" of a config.json or generation_config.json called `file`: one id, a list, or absent.
expected<std::vector<token_id>> read_eos_ids(const boost::json::object& object, const std::string& file,
                                             std::uint32_t vocab_size);

} // namespace paceline::model
