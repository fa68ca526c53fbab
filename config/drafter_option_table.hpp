#pragma once

#include "config/group_builder.hpp"

namespace paceline::config {

/// Declares the options of a drafter.
void declare_drafter(group_builder<drafter_options>& g);

} // namespace paceline::config
