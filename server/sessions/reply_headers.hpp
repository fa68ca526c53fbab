#pragma once

#include "server/http/error_reply.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace paceline::server {

/// The headers of every reply to a generation: the request's id, and the names of the first twenty ignored
/// fields, if there are any.
inline header_list reply_headers(const std::string& request_id,
                                 const std::vector<std::string>& ignored_fields,
                                 error_form form = error_form::openai) {
  auto list = id_headers(request_id, form);
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(ignored_fields.size(), 20); ++i)
    names.append(i == 0 ? "" : ", ").append(ignored_fields[i], 0, 64);
  if (!names.empty()) list.emplace_back("x-paceline-ignored-fields", std::move(names));
  return list;
}

} // namespace paceline::server
