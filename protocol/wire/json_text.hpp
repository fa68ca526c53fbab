#pragma once

#include <boost/json/fwd.hpp>

#include <string>

namespace paceline::wire {

/// `value` as one line of JSON, by the rules of `json_writer`: numbers as people read them ("114.19", where
/// Boost's own serializer prints "1.1419E2").
std::string json_text(const boost::json::value& value);
std::string json_text(const boost::json::object& value);

} // namespace paceline::wire
