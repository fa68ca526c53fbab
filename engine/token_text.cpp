#include "engine/token_text.hpp"

#include "runtime/tokenizer/text_stream.hpp"

namespace paceline {

namespace {

class token_text final : public rounds::text_output {
 public:
  token_text(const tokenizer::tokenizer& vocabulary, const generation_request& request)
      : stream_(vocabulary, request.stop.stop_strings, request.stop.include_stop_string,
                {.skip_special = request.skip_special_tokens, .continues_text = true}) {}

  piece feed(token_id token, bool may_stop) override {
    auto out = stream_.feed(token, may_stop);
    return {std::move(out.text), std::move(out.stop_string)};
  }
  std::string finish() override { return stream_.finish().text; }
  std::unique_ptr<rounds::text_output> clone() const override { return std::make_unique<token_text>(*this); }

 private:
  tokenizer::text_stream stream_;
};

} // namespace

std::unique_ptr<rounds::text_output> make_token_text(const tokenizer::tokenizer& vocabulary,
                                                     const generation_request& request) {
  return std::make_unique<token_text>(vocabulary, request);
}

} // namespace paceline
