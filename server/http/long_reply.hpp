#pragma once

#include "protocol/wire/text_source.hpp"
#include "server/http/reply_channel.hpp"

#include <memory>

namespace paceline::server {

/// Sends a JSON reply of any length: with a Content-Length up to about 256 KiB, otherwise in pieces that are
/// generated as the client reads.
void reply_made(reply_channel& channel, std::unique_ptr<wire::text_source> body, header_list headers);

} // namespace paceline::server
