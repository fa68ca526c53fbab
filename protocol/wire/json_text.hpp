#pragma once

#include <boost/json/fwd.hpp>

#include <string>

namespace paceline::wire {

/// `value` as one line of JSON, by the rules of `json_writer`: numbers without exponents ("114.19", where
/// Boost's serializer prints "1.1419E2").
std::string json_text(const boost::json::value& value);
std::string json_text(const boost::json::object& value);

} // namespace paceline::wire
