#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/text_source.hpp"
#include "server/edge_context.hpp"
#include "server/http/request_body.hpp"

#include <cstddef>
#include <memory>

namespace paceline::server {

/// Tokens up to which /tokenize counts for any model; of one with a longer context it counts up to that.
inline constexpr std::size_t max_counted_tokens = 128U << 10U;

// Host work of milliseconds: these run on edge threads. What they give makes its text while it is sent. They
// let `body` go once it is read.

/// Bodies of the replies of /tokenize and /detokenize.
wire::parsed<std::unique_ptr<wire::text_source>> tokenize_reply(const edge_context& edge, request_body body);
wire::parsed<std::unique_ptr<wire::text_source>> detokenize_reply(const edge_context& edge,
                                                                  request_body body);

} // namespace paceline::server
