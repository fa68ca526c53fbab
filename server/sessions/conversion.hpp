#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/text_source.hpp"
#include "server/edge_context.hpp"
#include "server/http/request_body.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace paceline::server {

/// Largest number of tokens for /tokenize and for the endpoints that count a prompt's tokens. For a model
/// with a longer context, the limit is the context length instead.
inline constexpr std::size_t max_counted_tokens = 128U << 10U;

// These functions take milliseconds and run on threads of edge_pool. The sources that they return generate
// the text while it is sent. The functions release `body` when it has been read.

/// Bodies of the replies of /tokenize and /detokenize. `path_model`: the model that the path names; may be
/// empty.
wire::parsed<std::unique_ptr<wire::text_source>> tokenize_reply(const edge_context& edge, request_body body,
                                                                std::string_view path_model = {});
wire::parsed<std::unique_ptr<wire::text_source>> detokenize_reply(const edge_context& edge, request_body body,
                                                                  std::string_view path_model = {});

/// Body of the reply of /v1/messages/count_tokens. `path_model` as above.
wire::parsed<std::unique_ptr<wire::text_source>> count_reply(const edge_context& edge, request_body body,
                                                             std::string_view path_model = {});

/// Body of the reply of /v1/responses/input_tokens. `history`: the turns of the response that `request`
/// continues.
wire::parsed<std::unique_ptr<wire::text_source>> input_count_reply(const edge_context& edge,
                                                                   wire::response_request request,
                                                                   std::vector<wire::chat_message> history);

} // namespace paceline::server
