#pragma once

#include "server/http/reply_channel.hpp"

#include <string_view>

namespace paceline::server {

/// One file of the page, as the build put it into the program (cmake/EmbedFiles.cmake).
struct page_file {
  std::string_view name;   ///< without a folder
  std::string_view text;   ///< UTF-8
  std::string_view sha256; ///< of the text, in hexadecimal
};

/// Name of the file that "/" answers with.
inline constexpr std::string_view page_index = "index.html";

/// The file, with headers that let the browser run nothing but these files and connect nowhere but to this
/// server. 304 without a body if `if_none_match`, the request's header, names this version; 404 if there is
/// no such file.
http_reply page_reply(std::string_view name, std::string_view if_none_match);

} // namespace paceline::server
