#pragma once

#include "runtime/speculation/drafters/drafter.hpp"
#include "tests/support/reference_beam_search.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace paceline::test {

/// Output tokens of the hypotheses that each request's search keeps; filled by the test.
using known_searches = std::map<request_id, reference_beams>;

/// A drafter that knows which hypotheses continue, and drafts their continuations below each hypothesis,
/// `most` levels at a time. At output positions where `wrong` is true it drafts a token with which no
/// hypothesis continues, and stops.
std::unique_ptr<speculation::drafter>
make_beam_drafter(std::string name, std::shared_ptr<const known_searches> known, std::uint32_t vocab_size,
                  std::function<bool(std::size_t output_position)> wrong);

} // namespace paceline::test
