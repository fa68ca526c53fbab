#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <optional>
#include <string>

namespace paceline::tokenizer {

/// The part of a chat request that the model's template may use.
struct chat_request {
  boost::json::array messages;
  std::optional<boost::json::array> tools;
  std::optional<boost::json::array> documents;
  bool add_generation_prompt = true;
  boost::json::object template_arguments; ///< `chat_template_kwargs`: enable_thinking and the like
};

/// Spellings of special tokens for templates; nullopt if the vocabulary has no such token.
struct special_spellings {
  std::optional<std::string> bos, eos, pad, unk;
};

/// The variables of transformers' `apply_chat_template`: messages, tools, documents (None if there are none),
/// add_generation_prompt, bos_token, eos_token, pad_token, unk_token, and the request's own arguments. Error
/// if one of the request's arguments has a reserved name: that of one of the other variables or of a global
/// function (such as `range`), or `self`, `chat_template` or `tokenize`.
expected<boost::json::object> request_variables(chat_request request, const special_spellings& spellings);

} // namespace paceline::tokenizer
