#include "protocol/wire/sampling_fields.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

namespace paceline::wire {

namespace {

/// One entry of "logit_bias" as the client wrote it.
struct written_bias {
  token_id token;
  float amount = 0;
  std::uint32_t place = 0;      ///< index among the entries
  std::uint32_t num_digits = 0; ///< number of digits in its name; it differs between two spellings of one id
};

/// If entries repeat a name, the last one counts; a token under two names is an error.
void keep_last_biases(field_reader& reader, std::vector<written_bias>& written, sampling_params& out) {
  std::sort(written.begin(), written.end(), [](const auto& a, const auto& b) {
    return std::pair(a.token, a.place) < std::pair(b.token, b.place);
  });
  std::vector<std::pair<token_id, float>> biases;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const bool repeated = i > 0 && written[i - 1].token == written[i].token;
    if (!repeated)
      biases.emplace_back(written[i].token, written[i].amount);
    else if (written[i - 1].num_digits == written[i].num_digits)
      biases.back().second = written[i].amount;
    else
      return reader.fail("logit_bias", "token " + to_string(written[i].token) + " is named twice");
  }
  out.logit_bias = std::move(biases);
}

/// {"id": bias}: ids are decimal text, as JSON keys are. llama-server's clients send an empty list for none.
void read_logit_bias(field_reader& reader, sampling_params& out) {
  const auto& row = spec("logit_bias");
  const auto given = reader.find(row);
  if (!given || (given->is_array() && given->elements().empty())) return;
  const auto bias = reader.object(row);
  if (!bias) return;
  std::vector<written_bias> written;
  for (const auto member : bias->members()) {
    const auto name = member.name();
    std::int32_t id = -1;
    const auto* end = name.data() + name.size();
    const auto [stop, failure] = std::from_chars(name.data(), end, id);
    if (failure != std::errc{} || stop != end || id < 0)
      return reader.fail("logit_bias", "keys must be token ids, not \"" + name.substr(0, 32) + "\"");
    if (member.value.is_null()) continue;
    const auto amount = reader.to_number(member.value, "logit_bias." + name, row.range);
    if (!amount) return;
    written.push_back({token_id{id}, *amount, static_cast<std::uint32_t>(written.size()),
                       static_cast<std::uint32_t>(name.size())});
  }
  keep_last_biases(reader, written, out);
}

void read_penalties(field_reader& reader, sampling_params& out) {
  const bool has_own = reader.number(spec("repetition_penalty"), out.repetition_penalty);
  float alias = 1; // llama-server's name
  if (reader.number(spec("repeat_penalty"), alias)) {
    if (has_own && alias != out.repetition_penalty)
      reader.fail("repeat_penalty", "is another name of repetition_penalty, and has another value");
    out.repetition_penalty = alias;
  }
  reader.number(spec("presence_penalty"), out.presence_penalty);
  reader.number(spec("frequency_penalty"), out.frequency_penalty);
  const bool penalises =
      out.repetition_penalty != 1 || out.presence_penalty != 0 || out.frequency_penalty != 0;
  std::int64_t window = -1;
  if (reader.integer(spec("repeat_last_n"), window) && window != -1 && penalises)
    reader.fail(unsupported("repeat_last_n",
                            "repeat_last_n: penalties count all tokens; with one only -1 is accepted"));
}

} // namespace

void read_sampling(field_reader& reader, sampling_params& out) {
  reader.number(spec("temperature", in::openai), out.temperature);
  reader.number(spec("top_p"), out.top_p);
  reader.number(spec("min_p"), out.min_p);
  reader.integer(spec("top_k"), out.top_k);
  read_penalties(reader, out);
  read_logit_bias(reader, out);
}

void read_seed(field_reader& reader, std::optional<std::uint64_t>& out) {
  const auto& row = spec("seed");
  const auto value = reader.find(row);
  if (!value) return;
  const auto number = value->int64();
  if (number == -1) return;
  out = number ? static_cast<std::uint64_t>(*number) : value->uint64();
  if (out) return;
  reader.fail(row.name, "must be an integer from -9223372036854775808 to 18446744073709551615, not " +
                            std::string(kind_of(*value)));
}

} // namespace paceline::wire
