#pragma once

#include "server/http/reply_channel.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace paceline::server {

/// The headers of every reply to a generation: the request's id, and the names of the first twenty ignored
/// fields, if there are any.
inline header_list reply_headers(const std::string& request_id,
                                 const std::vector<std::string>& ignored_fields) {
  header_list list{{"x-request-id", request_id}};
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(ignored_fields.size(), 20); ++i)
    names.append(i == 0 ? "" : ", ").append(ignored_fields[i], 0, 64);
  if (!names.empty()) list.emplace_back("x-paceline-ignored-fields", std::move(names));
  return list;
}

} // namespace paceline::server
