#pragma once

#include "server/http/reply_channel.hpp"

#include <string_view>

namespace paceline::server {

/// One file of the web page that the daemon serves at "/" (docs/page.md). The build embeds the files in the
/// program (cmake/EmbedFiles.cmake).
struct page_file {
  std::string_view name;   ///< without a folder
  std::string_view text;   ///< UTF-8
  std::string_view sha256; ///< of the text, in hexadecimal
};

/// Name of the file that is served at "/".
inline constexpr std::string_view page_index = "index.html";

/// Returns the page file `name`, or an error reply with status 404 if there is no such file. The file's
/// Content-Security-Policy lets the browser load scripts and styles only from this server, and connect only
/// to this server. `if_none_match` is the value of the request's If-None-Match header, empty if absent. If
/// the value contains the file's ETag (the SHA-256) or is "*", the reply is 304 without a body.
http_reply page_reply(std::string_view name, std::string_view if_none_match);

} // namespace paceline::server
