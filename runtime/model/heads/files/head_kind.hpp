#pragma once

#include "runtime/base/expected.hpp"

#include <filesystem>
#include <string>

namespace paceline::model {

/// The kind of drafter ("eagle2", "eagle3", "medusa", "blockwise", "mtp", "hydra", "mlp_speculator", "dart",
/// "dflash", "dspark", "pass", "ppd") that uses the head at `path`. In a directory the names of tensors
/// decide. In a GGUF file the architecture decides, and the names of tensors if two kinds have the same
/// architecture. EAGLE-1 and EAGLE-2 have the same heads; the answer is "eagle2". Errors: `not_found`,
/// `invalid_file`, and `unsupported` if the files are not a head of a known kind.
expected<std::string> kind_of_head(const std::filesystem::path& path);

} // namespace paceline::model
