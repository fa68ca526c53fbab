#include "apps/build_info.hpp"

#include "build_commit.inc"

namespace paceline::apps {

std::string_view build_version() noexcept { return PACELINE_VERSION; }
std::string_view build_commit() noexcept { return PACELINE_COMMIT; }

} // namespace paceline::apps
