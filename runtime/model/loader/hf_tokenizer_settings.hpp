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

/// What a Hugging Face directory says about its tokenizer beside tokenizer.json.
struct hf_tokenizer_settings {
  std::filesystem::path tokenizer_json; ///< empty when there is none
  std::string chat_template;            ///< Jinja source; empty when there is none
  std::optional<std::string> bos_token, eos_token, unk_token, pad_token; ///< spellings
  std::optional<bool> add_bos, add_eos; ///< none: as tokenizer.json's post-processor does
};

/// Reads tokenizer_config.json and chat_template.jinja where they exist.
expected<hf_tokenizer_settings> read_hf_tokenizer_settings(const std::filesystem::path& directory);

/// "eos_token_id" of a config.json or generation_config.json called `file`: one id, a list, or none of them.
expected<std::vector<token_id>> read_eos_ids(const boost::json::object& object, const std::string& file,
                                             std::uint32_t vocab_size);

} // namespace paceline::model
