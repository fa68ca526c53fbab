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

/// SmolLM2 in an engine with drafters made from it, and the results of plain decoding without an engine.
namespace paceline::test {

/// smollm2.gguf in PACELINE_MODEL_DIR; nullopt if it does not exist.
std::optional<std::filesystem::path> smollm2_file();
/// "12-layers" or "q2_k", made by make_drafters.py.
std::filesystem::path drafter_file(const std::string& name);

/// Output tokens by the request's seed, which identifies it.
using token_table = std::map<std::uint64_t, std::vector<token_id>>;

/// Request number `n` of eight, with its own text; requests at temperature 0 and above have different seeds.
generation_request real_request(std::uint32_t n, float temperature, std::uint32_t max_tokens);

/// Decodes each request separately, one row a pass, without engine, pool or actors.
token_table decode_plainly(const std::filesystem::path& model,
                           const std::vector<generation_request>& requests);

/// Logits after a context, computed in one pass, without engine, pool or actors.
std::function<std::vector<float>(std::span<const token_id>)>
logits_of_file(const std::filesystem::path& model);

/// The engine's options: SmolLM2 on two threads with drafters "ngram", "wrong", "itself", "layers" and
/// "q2_k". With overlap, drafters with a model run on the second thread as a partition of their own.
config::engine_options real_engine_options(config::overlap_mode overlap);

/// The built-in kinds of drafters, and "wrong", whose draft tokens always differ from those of `right`.
speculation::drafter_registry registry_with_wrong(std::shared_ptr<const token_table> right);

} // namespace paceline::test
