#pragma once

#include "engine/served_model.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"

#include <boost/json/array.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// One row of a workload file. Doors send it unchanged; `tokens` is what the model must receive through any
/// of them.
struct workload_prompt {
  boost::json::array messages; ///< a conversation; if empty, `text` is the whole prompt
  std::string text;
  std::vector<token_id> tokens; ///< computed here, compared with what the daemon reports
};

/// The prompts of a workload file: JSON lines with "messages" or "prompt". At most `most` of them, or all if
/// that is 0. Prompts that do not fit the context together with `max_tokens` are skipped and listed on
/// standard error. Errors name file and line.
expected<std::vector<workload_prompt>> read_workload(const std::string& path, std::uint32_t most,
                                                     std::uint32_t max_tokens, const served_model& model);

} // namespace paceline::apps::bench
