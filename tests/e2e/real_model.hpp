#pragma once

#include "config/engine_options.hpp"
#include "engine/engine.hpp"
#include "runtime/base/request.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// SmolLM2 in an engine with drafters made from it, and what plain decoding gives without any engine.
namespace paceline::test {

/// smollm2.gguf in PACELINE_MODEL_DIR; none if it is not there.
std::optional<std::filesystem::path> smollm2_file();
/// "12-layers" or "q2_k", as make_drafters.py made it.
std::filesystem::path drafter_file(const std::string& name);

/// Output tokens of each request by its seed, which tells requests apart.
using token_table = std::map<std::uint64_t, std::vector<token_id>>;

/// Request number `n` of eight, with a text of its own; temperatures 0 and above have seeds of their own.
generation_request real_request(std::uint32_t n, float temperature, std::uint32_t max_tokens);

/// Decodes each request alone, one row a pass, without engine, pool or actors.
token_table decode_plainly(const std::filesystem::path& model,
                           const std::vector<generation_request>& requests);

/// Logits after a context, all of it computed in one pass, without engine, pool or actors.
std::function<std::vector<float>(std::span<const token_id>)>
logits_of_file(const std::filesystem::path& model);

/// The engine's options: SmolLM2 on two threads with drafters "ngram", "wrong", "itself", "layers" and
/// "q2_k". Two groups: drafters with a model of their own have the second thread as their partition.
config::engine_options real_engine_options(config::overlap_mode overlap);

/// The built-in kinds of drafters and "wrong", whose draft tokens are never those of `right`.
speculation::drafter_registry registry_with_wrong(std::shared_ptr<const token_table> right);

} // namespace paceline::test
