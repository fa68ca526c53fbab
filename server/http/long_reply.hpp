#pragma once

#include "protocol/wire/text_source.hpp"
#include "server/http/reply_channel.hpp"

#include <memory>

namespace paceline::server {

/// Sends a JSON reply of any length. A reply of up to about 256 KiB is sent whole, with a Content-Length; a
/// longer reply is sent in pieces, which are generated as the client reads.
void reply_made(reply_channel& channel, std::unique_ptr<wire::text_source> body, header_list headers);

} // namespace paceline::server
