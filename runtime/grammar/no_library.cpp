#include "runtime/grammar/grammar_compiler.hpp"

// This file replaces grammar_compiler.cpp in a build without XGrammar.

namespace paceline::grammar {

namespace {

class refusing_compiler final : public compiler {
 public:
  expected<std::shared_ptr<const token_constraint>> compile(const grammar_source& /*source*/) override {
    return error(errc::unsupported, "this build has no grammar library; see docs/dependencies.md");
  }
};

} // namespace

std::unique_ptr<compiler> make_compiler(const tokenizer::tokenizer& /*vocabulary*/,
                                        std::uint32_t /*vocab_size*/, std::vector<token_id> /*end_ids*/,
                                        const compile_limits& /*limits*/) {
  return std::make_unique<refusing_compiler>();
}

} // namespace paceline::grammar
