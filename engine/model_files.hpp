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

/// The name that selects the built-in chat template if it is configured instead of a path.
inline constexpr std::string_view chatml_name = "chatml";

/// The template in the file `path`, or the built-in one if `path` is `chatml_name`. nullopt if `path` or the
/// file is empty.
expected<std::optional<tokenizer::chat_template>> configured_chat_template(const std::string& path);

/// The configured template; without one, the template in the model's files. nullopt if these have none.
expected<std::optional<tokenizer::chat_template>> chat_template_of(const model::model_source& source,
                                                                   const std::string& path);

} // namespace paceline
