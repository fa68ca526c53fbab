#pragma once

#include <boost/json/fwd.hpp>

#include <string>

namespace paceline::wire {

/// `value` as one line of JSON, written by `json_writer`. Unlike Boost's serializer it prints usual numbers
/// without exponents ("114.19" instead of "1.1419E2").
std::string json_text(const boost::json::value& value);
std::string json_text(const boost::json::object& value);

} // namespace paceline::wire
