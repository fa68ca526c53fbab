#pragma once

#include <string_view>

namespace paceline::apps {

std::string_view build_version() noexcept; ///< version in CMakeLists.txt: "0.1.0"
std::string_view build_commit() noexcept;  ///< "ea4adb1", "ea4adb1-dirty", or "unknown" outside a checkout

} // namespace paceline::apps
