#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "runtime/tokenizer/chat_template/chat_template.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

/// The tokenizer of a Hugging Face directory. `eos_ids` end a generation in addition to the ids that the
/// directory's files name.
expected<tokenizer::tokenizer> make_tokenizer(const model::hf_tokenizer_settings& files,
                                              std::vector<token_id> eos_ids = {});

/// The tokenizer of an opened model: from a GGUF file's vocabulary or a directory's tokenizer.json.
expected<tokenizer::tokenizer> make_tokenizer(const model::model_source& source);

/// Configured instead of a path, this name selects the built-in chat template.
inline constexpr std::string_view chatml_name = "chatml";

/// The built-in template, or that of the file `path`. nullopt if the path is empty.
expected<std::optional<tokenizer::chat_template>> configured_chat_template(const std::string& path);

/// `configured_chat_template`; if there is none, the model's own.
expected<std::optional<tokenizer::chat_template>> chat_template_of(const model::model_source& source,
                                                                   const std::string& path);

} // namespace paceline
