#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// What the files beside a tokenizer.json say about it; all of it optional.
struct tokenizer_json_settings {
  std::optional<std::string> bos{}, eos{}, pad{}; ///< spellings
  std::optional<bool> add_bos{}, add_eos{};       ///< none: as the file's post-processor does
  std::vector<token_id> eos_ids{}; ///< that end a generation, besides `eos` and known spellings
};

/// Reads the tokenizer.json of a "fast" tokenizer, called `file` in errors: BPE and Unigram models with the
/// usual normalizers, pre-tokenizers, post-processors and decoders. A component that would change tokens and
/// is not offered is errc::unsupported, by its name. Encoding equals the Python package `tokenizers` to the
/// last id.
expected<tokenizer> read_tokenizer_json(std::string_view json, const tokenizer_json_settings& settings,
                                        std::string_view file = "tokenizer.json");

} // namespace paceline::tokenizer
