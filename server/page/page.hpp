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

/// Returns the page file `name`. Its Content-Security-Policy lets the browser load scripts and styles from
/// this server only and connect only to it. `if_none_match` is the request's header, empty if absent. If it
/// contains the file's ETag (the SHA-256) or is "*", the reply is 304 without a body. If there is no such
/// file, it is an error reply with status 404.
http_reply page_reply(std::string_view name, std::string_view if_none_match);

} // namespace paceline::server
