#pragma once

#include "engine/served_model.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"

#include <boost/json/array.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// One line of a workload file. Every interface sends `messages` or `text` unchanged, and the model must
/// receive `tokens` through all of them.
struct workload_prompt {
  boost::json::array messages; ///< a conversation; if empty, `text` is the whole prompt
  std::string text;
  std::vector<token_id> tokens; ///< computed by this program and compared with what the daemon reports
};

/// The prompts of a workload file: JSON lines with "messages" or "prompt". Reads at most `most` of them, or
/// all if `most` is 0. Prompts that do not fit the context together with `max_tokens` are skipped and listed
/// on standard error. Errors name file and line.
expected<std::vector<workload_prompt>> read_workload(const std::string& path, std::uint32_t most,
                                                     std::uint32_t max_tokens, const served_model& model);

} // namespace paceline::apps::bench
