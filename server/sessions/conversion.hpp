#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/text_source.hpp"
#include "server/edge_context.hpp"
#include "server/http/request_body.hpp"

#include <cstddef>
#include <memory>
#include <string_view>

namespace paceline::server {

/// Up to this number of tokens /tokenize and /v1/messages/count_tokens count for any model. For a model with
/// a longer context it counts up to that.
inline constexpr std::size_t max_counted_tokens = 128U << 10U;

// These functions take milliseconds and run on edge threads. Their results generate the text while it is
// sent. They release `body` once it was read.

/// Bodies of the replies of /tokenize and /detokenize. `path_model`: the model that the path names; may be
/// empty.
wire::parsed<std::unique_ptr<wire::text_source>> tokenize_reply(const edge_context& edge, request_body body,
                                                                std::string_view path_model = {});
wire::parsed<std::unique_ptr<wire::text_source>> detokenize_reply(const edge_context& edge, request_body body,
                                                                  std::string_view path_model = {});

/// Body of the reply of /v1/messages/count_tokens. `path_model` as above.
wire::parsed<std::unique_ptr<wire::text_source>> count_reply(const edge_context& edge, request_body body,
                                                             std::string_view path_model = {});

} // namespace paceline::server
