#include "runtime/speculation/drafters/registry.hpp"

#include "config/drafters.hpp"
#include "runtime/base/joined.hpp"
#include "runtime/speculation/drafters/bigram_drafter.hpp"
#include "runtime/speculation/drafters/copy_drafter.hpp"
#include "runtime/speculation/drafters/forced_drafter.hpp"
#include "runtime/speculation/drafters/lookahead_drafter.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "runtime/speculation/drafters/nasd_drafter.hpp"
#include "runtime/speculation/drafters/ngram_drafter.hpp"
#include "runtime/speculation/drafters/no_drafter.hpp"
#include "runtime/speculation/drafters/prediction_drafter.hpp"
#include "runtime/speculation/drafters/random_drafter.hpp"
#include "runtime/speculation/drafters/suffix_drafter.hpp"
#include "runtime/speculation/drafters/synthetic_drafter.hpp"
#include "runtime/speculation/drafters/trained_rows_drafter.hpp"
#include "runtime/speculation/drafters/unigram_drafter.hpp"

namespace paceline::speculation {

namespace {

/// The number of levels that the trained part of a drafter has, or 0 if it has no such part.
std::uint32_t levels_of(const drafter_parts& parts) {
  if (parts.own_head) return parts.own_head->traits().max_levels;
  return parts.own_inputs ? parts.own_inputs->num_rows : 0;
}

} // namespace

drafter_registry drafter_registry::with_built_in() {
  drafter_registry registry;
  registry.add("none", make_no_drafter);
  registry.add("ngram", make_ngram_drafter);
  registry.add("suffix", make_suffix_drafter);
  registry.add("prediction", make_prediction_drafter);
  registry.add("forced", make_forced_drafter);
  registry.add("unigram", make_unigram_drafter);
  registry.add("bigram", make_bigram_drafter);
  registry.add("copy", make_copy_drafter);
  registry.add("random", make_random_drafter);
  registry.add("synthetic", make_synthetic_drafter);
  registry.add("nasd", make_nasd_drafter);
  registry.add("lookahead", make_lookahead_drafter);
  registry.add("pass", make_trained_rows_drafter);
  registry.add("ppd", make_trained_rows_drafter);
  registry.add("model", make_model_drafter);
  registry.add("self", make_self_drafter);
  registry.add("cascade", make_cascade_drafter);
  for (const char* const kind : {"eagle", "eagle2", "eagle3", "medusa", "blockwise", "mtp", "hydra",
                                 "mlp_speculator", "dart", "dflash", "dspark"})
    registry.add(kind, make_head_drafter);
  return registry;
}

void drafter_registry::add(std::string kind, drafter_factory factory) {
  factories_.insert_or_assign(std::move(kind), std::move(factory));
}

expected<std::unique_ptr<drafter>> drafter_registry::make(const drafter_parts& parts) const {
  const auto factory = factories_.find(parts.options.kind);
  if (factory != factories_.end()) {
    drafter_parts whole = parts;
    whole.options = config::with_kind_defaults(parts.options, levels_of(parts));
    whole.make_another = [this](const drafter_parts& another) { return make(another); };
    return factory->second(whole);
  }
  return bad_option(parts.options, "kind \"" + parts.options.kind + "\" is not one of " +
                                       joined(factories_, ", ", [](const auto& one) { return one.first; }));
}

std::vector<std::string> drafter_registry::kinds() const {
  std::vector<std::string> names;
  for (const auto& [kind, factory] : factories_) names.push_back(kind);
  return names;
}

} // namespace paceline::speculation
