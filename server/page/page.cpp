#include "server/page/page.hpp"

#include "server/http/error_reply.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace paceline::server {

extern const std::span<const page_file> page_files; // the source that the build generates

namespace {

/// Forbids inline scripts and styles, markup made from text (Trusted Types), frames, and other addresses.
constexpr std::string_view policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view media_type(std::string_view name) noexcept {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

} // namespace

http_reply page_reply(std::string_view name, std::string_view if_none_match) {
  const auto found = std::ranges::find(page_files, name, &page_file::name);
  if (found == page_files.end())
    return error_reply({404, "not_found_error", "not_found", "the page has no such file", "", 0});
  http_reply reply;
  reply.content_type = media_type(name);
  const auto tag = '"' + std::string(found->sha256) + '"';
  reply.headers = {{"Content-Security-Policy", std::string(policy)},
                   {"Referrer-Policy", "no-referrer"},
                   // The browser keeps the file but asks every time, because the next version may differ.
                   {"Cache-Control", "no-cache"},
                   {"ETag", tag}};
  // A proxy that compresses marks the tag as weak, so it may be part of a longer one.
  if (if_none_match.find(tag) != std::string_view::npos || if_none_match == "*")
    reply.status = 304;
  else
    reply.body = found->text;
  return reply;
}

} // namespace paceline::server
