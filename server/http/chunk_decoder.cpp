#include "server/http/chunk_decoder.hpp"

#include "server/http/field_characters.hpp"

#include <algorithm>
#include <string>

namespace paceline::server {

namespace {

constexpr std::uint32_t max_digits = 16; // as many as 64 bits have

std::optional<std::uint64_t> hexadecimal(char c) noexcept {
  const auto from = [c](char first) { return static_cast<std::uint64_t>(c - first); };
  if (c >= '0' && c <= '9') return from('0');
  if (c >= 'a' && c <= 'f') return from('a') + 10;
  if (c >= 'A' && c <= 'F') return from('A') + 10;
  return std::nullopt;
}

} // namespace

std::string_view chunk_decoder::next(std::string_view& bytes) {
  while (!bytes.empty() && state_ != state::ended && state_ != state::refused) {
    if (state_ == state::data) {
      const auto run =
          bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(size_, bytes.size())));
      bytes.remove_prefix(run.size());
      size_ -= run.size();
      if (size_ == 0) state_ = state::data_cr;
      return run;
    }
    take(bytes.front());
    bytes.remove_prefix(1);
  }
  return {};
}

void chunk_decoder::take(char c) {
  switch (state_) {
  case state::size_begin:
  case state::size:
    return take_size(c);
  case state::extension:
    if (c == '\r') {
      state_ = state::size_end;
    } else if (!is_value_char(c)) {
      refuse("a chunk extension has a control character");
    } else if (++extension_bytes_ > limits_.max_extension_bytes) {
      refuse("the chunk extensions are too long");
    }
    return;
  case state::size_end:
    if (c != '\n') return refuse("the line of a chunk's size must end with CR LF");
    return end_size_line();
  case state::data_cr:
    return expect(c, '\r', state::data_lf);
  case state::data_lf:
    return expect(c, '\n', state::size_begin);
  case state::line_begin:
  case state::trailer_name:
  case state::trailer_value:
    return take_trailer(c);
  case state::trailer_end:
    return expect(c, '\n', state::line_begin);
  case state::final_lf:
    return expect(c, '\n', state::ended);
  case state::data:
  case state::ended:
  case state::refused:
    return; // this byte belongs to the content and not to the framing
  }
}

void chunk_decoder::take_size(char c) {
  if (const auto digit = hexadecimal(c)) return take_digit(*digit);
  if (state_ == state::size_begin) return refuse("a chunk must begin with its size in hexadecimal digits");
  if (c == ';')
    state_ = state::extension;
  else if (c == '\r')
    state_ = state::size_end;
  else
    refuse("a chunk's size is hexadecimal digits and nothing else");
}

void chunk_decoder::take_digit(std::uint64_t digit) {
  state_ = state::size;
  if (++num_digits_ > max_digits) return refuse("a chunk's size has more than 16 digits");
  size_ = size_ * 16 + digit;
}

void chunk_decoder::end_size_line() {
  num_digits_ = 0;
  if (size_ == 0) {
    state_ = state::line_begin;
    return;
  }
  if (size_ > limits_.max_body_bytes - body_bytes_) return refuse_long_body();
  body_bytes_ += size_;
  state_ = state::data;
}

void chunk_decoder::take_trailer(char c) {
  if (state_ == state::line_begin && c == '\r') {
    state_ = state::final_lf;
    return;
  }
  if (state_ == state::trailer_value && c == '\r') {
    state_ = state::trailer_end;
    return;
  }
  if (++trailer_bytes_ > limits_.max_trailer_bytes) return refuse("the trailers are too long");
  if (state_ == state::trailer_name && c == ':')
    state_ = state::trailer_value;
  else if (state_ != state::trailer_value && is_token_char(c))
    state_ = state::trailer_name;
  else if (state_ != state::trailer_value || !is_value_char(c))
    refuse("a trailer is not a header line");
}

void chunk_decoder::expect(char c, char expected, state after) {
  if (c == expected)
    state_ = after;
  else
    refuse("chunks and trailers must end with CR LF");
}

void chunk_decoder::refuse(const char* message) {
  state_ = state::refused;
  refusal_ = wire::api_error{400, "invalid_request_error", "malformed_request", message, "", 0};
}

void chunk_decoder::refuse_long_body() {
  state_ = state::refused;
  refusal_ =
      wire::api_error{413,
                      "invalid_request_error",
                      "body_too_large",
                      "the chunked body has more than " + std::to_string(limits_.max_body_bytes) + " bytes",
                      "",
                      0};
}

} // namespace paceline::server
