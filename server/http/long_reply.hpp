#pragma once

#include "protocol/wire/text_source.hpp"
#include "server/http/reply_channel.hpp"

#include <memory>

namespace paceline::server {

/// A JSON reply of any length: with its length if it is short, else made as the client takes it.
void reply_made(reply_channel& channel, std::unique_ptr<wire::text_source> body, header_list headers);

} // namespace paceline::server
