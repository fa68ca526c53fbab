#pragma once

#include "runtime/base/expected.hpp"

#include <filesystem>
#include <string>

namespace paceline::model {

/// The kind of drafter ("eagle2", "eagle3", "medusa", "blockwise", "mtp", "hydra", "mlp_speculator", "dart",
/// "dflash", "dspark", "pass", "ppd") that drafts with the head in a directory, by the names of its tensors,
/// or in a GGUF file, by its architecture and, where two kinds share it, by the names of its tensors. EAGLE-1
/// and EAGLE-2 have the same heads; the answer is "eagle2". Errors: `not_found`, `invalid_file`, and
/// `unsupported` if it is no head of a known kind.
expected<std::string> kind_of_head(const std::filesystem::path& path);

} // namespace paceline::model
