#include "protocol/wire/beam_fields.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"

#include <algorithm>
#include <string>

namespace paceline::wire {

void read_beams(field_reader& reader, generation_fields& out) {
  bool wanted = false;
  reader.boolean(spec("use_beam_search", in::whole_texts), wanted);
  beam_params beams;
  beams.num_best = out.num_choices;
  beams.width = out.num_choices;
  bool stops_early = true;
  const bool has_width = reader.integer(spec("beam_width"), beams.width);
  const bool has_penalty = reader.number(spec("length_penalty"), beams.length_penalty);
  const bool has_early = reader.boolean(spec("early_stopping"), stops_early);
  if (!wanted) {
    for (const auto& [present, name] :
         {std::pair(has_width, "beam_width"), std::pair(has_penalty, "length_penalty"),
          std::pair(has_early, "early_stopping")})
      if (present) reader.fail(name, "needs use_beam_search: true");
    return;
  }
  if (!stops_early)
    reader.fail(unsupported("early_stopping",
                            "early_stopping: only true is offered; a search ends when as many "
                            "hypotheses have ended as it is wide"));
  if (out.num_choices > max_beam_width)
    reader.fail("n", "must be at most " + std::to_string(max_beam_width) + " with use_beam_search");
  if (beams.num_best > beams.width)
    reader.fail("beam_width", "must be at least n, which is " + std::to_string(beams.num_best));
  out.beams = beams;
}

std::optional<api_error> conflict_with_beams(const generation_fields& fields) {
  if (fields.beams.width == 0) return std::nullopt;
  const auto& sampling = fields.sampling;
  struct rule {
    bool broken;
    const char* field;
    const char* why;
  };
  const rule rules[] = {
      {sampling.temperature != 0 && sampling.temperature != 1, "temperature",
       "must be 0, 1 or absent: a beam search draws nothing"},
      {sampling.top_k > 0, "top_k", "must be 0 or absent: a beam search draws nothing"},
      {sampling.top_p < 1, "top_p", "must be 1 or absent: a beam search draws nothing"},
      {sampling.min_p > 0, "min_p", "must be 0 or absent: a beam search draws nothing"},
      {sampling.num_logprobs.has_value() || sampling.prompt_logprobs, "logprobs",
       "is not offered with use_beam_search"},
      {fields.first_target.has_value(), "first_target", "is not offered with use_beam_search"},
      {fields.trace, "paceline.trace", "is not offered with use_beam_search"},
      {fields.rule && *fields.rule != verification_rule::coupled, "speculation.rule",
       "is of sampled tokens; a beam search verifies drafts by its own steps"}};
  const auto* broken =
      std::find_if(std::begin(rules), std::end(rules), [](const rule& one) { return one.broken; });
  if (broken == std::end(rules)) return std::nullopt;
  return invalid_value(broken->field, std::string(broken->field) + ": " + broken->why);
}

} // namespace paceline::wire
