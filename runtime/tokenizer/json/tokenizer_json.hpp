#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// Settings from the files beside a tokenizer.json; all optional.
struct tokenizer_json_settings {
  std::optional<std::string> bos{}, eos{}, pad{}; ///< spellings
  std::optional<bool> add_bos{}, add_eos{};       ///< nullopt: as in the file's post-processor
  std::vector<token_id> eos_ids{}; ///< ids that end a generation, in addition to `eos` and known spellings
};

/// Reads the tokenizer.json of a "fast" tokenizer: BPE and Unigram models with the usual normalizers,
/// pre-tokenizers, post-processors and decoders. A component that would change tokens and is not supported
/// gives errc::unsupported with its name. Encoding gives exactly the ids of the Python package `tokenizers`.
/// `file`: the file's name in errors.
expected<tokenizer> read_tokenizer_json(std::string_view json, const tokenizer_json_settings& settings,
                                        std::string_view file = "tokenizer.json");

} // namespace paceline::tokenizer
