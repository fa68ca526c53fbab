#include "server/http/chunk_decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

namespace paceline::server {
namespace {

constexpr int accepted = 0;
constexpr int incomplete = 1;

/// What a decoder made of a text.
struct decoded {
  int status = incomplete; ///< accepted, incomplete or the status of a refusal
  std::string body;
  std::size_t num_read = 0; ///< bytes of the text

  friend bool operator==(const decoded&, const decoded&) = default;
};

std::ostream& operator<<(std::ostream& out, const decoded& d) {
  return out << "status " << d.status << ", " << d.body.size() << " bytes of " << d.num_read;
}

/// Feeds `text` in pieces whose sizes `next_size` gives.
template <class Size>
decoded decode(std::string_view text, const chunk_limits& limits, Size next_size) {
  chunk_decoder decoder(limits);
  decoded out;
  while (out.num_read < text.size() && !decoder.at_end() && !decoder.refusal()) {
    auto piece = text.substr(out.num_read, next_size());
    const auto size = piece.size();
    for (auto run = decoder.next(piece); !run.empty(); run = decoder.next(piece)) out.body += run;
    out.num_read += size - piece.size();
  }
  if (decoder.at_end()) out.status = accepted;
  if (decoder.refusal()) out.status = decoder.refusal()->status;
  return out;
}

decoded decode(std::string_view text, const chunk_limits& limits = {}) {
  return decode(text, limits, [&] { return text.size(); });
}

struct chunk_case {
  const char* name;
  std::string text;
  int status = accepted;
  std::string body;
};

std::vector<chunk_case> accepted_cases() {
  return {
      {"no chunk", "0\r\n\r\n", accepted, ""},
      {"one chunk", "5\r\nhello\r\n0\r\n\r\n", accepted, "hello"},
      {"several chunks", "2\r\nhe\r\n1\r\nl\r\n2\r\nlo\r\n0\r\n\r\n", accepted, "hello"},
      {"hexadecimal sizes", "a\r\n0123456789\r\nB\r\n01234567890\r\n0\r\n\r\n", accepted,
       "012345678901234567890"},
      {"leading zeros", "0000000000000005\r\nhello\r\n0000\r\n\r\n", accepted, "hello"},
      {"line ends as data", "4\r\n\r\n\r\n\r\n0\r\n\r\n", accepted, "\r\n\r\n"},
      {"a whole body as data", "5\r\n0\r\n\r\n\r\n0\r\n\r\n", accepted, "0\r\n\r\n"},
      {"an extension", "5;a=b\r\nhello\r\n0;last\r\n\r\n", accepted, "hello"},
      {"a quoted extension", "5;a=\"b c\"\r\nhello\r\n0\r\n\r\n", accepted, "hello"},
      {"a trailer", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", accepted, "hello"},
      {"trailers that would frame", "0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", accepted,
       ""},
      {"an empty trailer", "0\r\nX:\r\n\r\n", accepted, ""},
  };
}

std::vector<chunk_case> refused_cases() {
  return {
      {"no size", "\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a sign", "+5\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a minus", "-1\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"0x", "0x5\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a digit too high", "g\r\n", 400, ""},
      {"a fraction", "5.0\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"an underscore", "1_0\r\n", 400, ""},
      {"a blank before the size", " 5\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a blank after the size", "5 \r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a tab after the size", "5\t\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a blank before an extension", "5 ;a\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a size of 17 digits", "10000000000000005\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a size of 17 zeros", "00000000000000000\r\n\r\n", 400, ""},
      {"the largest size", "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", 413, ""},
      {"a size that would wrap", "1\r\nx\r\nFFFFFFFFFFFFFFFF\r\ny\r\n0\r\n\r\n", 413, "x"},
      {"a bare LF after the size", "5\nhello\r\n0\r\n\r\n", 400, ""},
      {"a bare CR after the size", "5\rhello\r\n0\r\n\r\n", 400, ""},
      {"a bare LF after an extension", "5;a\nhello\r\n0\r\n\r\n", 400, ""},
      {"a LF in a quoted extension", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a CR in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n", 400, ""},
      {"a NUL in an extension", std::string("5;\0\r\nhello\r\n0\r\n\r\n", 18), 400, ""},
      {"no line end after data", "5\r\nhello0\r\n\r\n", 400, "hello"},
      {"more data than the size", "4\r\nhello\r\n0\r\n\r\n", 400, "hell"},
      {"a bare LF after data", "5\r\nhello\n0\r\n\r\n", 400, "hello"},
      {"a bare CR after data", "5\r\nhello\r0\r\n\r\n", 400, "hello"},
      {"no final line", "0\r\nGET / HTTP/1.1\r\n\r\n", 400, ""},
      {"a bare LF as the final line", "0\r\n\n", 400, ""},
      {"a bare CR in the final line", "0\r\n\rX", 400, ""},
      {"a trailer without a name", "0\r\n: x\r\n\r\n", 400, ""},
      {"a trailer without a colon", "0\r\nnonsense\r\n\r\n", 400, ""},
      {"a blank before a trailer's colon", "0\r\nX : 1\r\n\r\n", 400, ""},
      {"a folded trailer", "0\r\nX: 1\r\n 2\r\n\r\n", 400, ""},
      {"a bare LF in a trailer", "0\r\nX: 1\n\r\n", 400, ""},
      {"a NUL in a trailer", std::string("0\r\nX: \0\r\n\r\n", 11), 400, ""},
  };
}

std::vector<chunk_case> all_cases() {
  auto all = accepted_cases();
  for (auto& item : refused_cases()) all.push_back(std::move(item));
  return all;
}

TEST(chunk_decoder, gives_every_body_its_bytes_or_its_refusal) {
  for (const auto& item : all_cases()) {
    const auto made = decode(item.text);
    EXPECT_EQ(made.status, item.status) << item.name;
    EXPECT_EQ(made.body, item.body) << item.name;
    if (item.status == accepted) {
      EXPECT_EQ(made.num_read, item.text.size()) << item.name;
    }
  }
}

TEST(chunk_decoder, decides_alike_whatever_the_pieces_the_bytes_arrive_in) {
  for (const auto& item : all_cases()) {
    const auto whole = decode(item.text);
    for (std::size_t size = 1; size < item.text.size(); ++size) {
      const auto made = decode(item.text, {}, [&] { return size; });
      EXPECT_EQ(made.status, whole.status) << item.name << " in pieces of " << size;
      EXPECT_EQ(made.body, whole.body) << item.name << " in pieces of " << size;
    }
    for (std::size_t cut = 0; cut < item.text.size(); ++cut) {
      const auto begun = decode(std::string_view(item.text).substr(0, cut));
      EXPECT_NE(begun.status, accepted) << item.name << " cut after " << cut;
      if (item.status == accepted) {
        EXPECT_EQ(begun.status, incomplete) << item.name << " cut after " << cut;
      }
    }
  }
}

TEST(chunk_decoder, leaves_the_next_request_alone) {
  const std::string body = "5\r\nhello\r\n0\r\n\r\n";
  EXPECT_EQ(decode(body + "5\r\nhello").num_read, body.size());
  chunk_decoder decoder({});
  std::string_view bytes = body;
  while (!decoder.next(bytes).empty()) {
  }
  std::string_view more = "GET / HTTP/1.1\r\n";
  EXPECT_TRUE(decoder.at_end() && decoder.next(more).empty());
  EXPECT_EQ(more, "GET / HTTP/1.1\r\n");
}

TEST(chunk_decoder, bounds_the_body_and_what_it_drops) {
  const chunk_limits limits{10, 20, 20};
  const auto status = [&](const std::string& text) { return decode(text, limits).status; };
  EXPECT_EQ(status("6\r\n012345\r\n4\r\n6789\r\n0\r\n\r\n"), accepted);
  EXPECT_EQ(status("6\r\n012345\r\n5\r\n"), 413) << "known before its bytes arrive";
  EXPECT_EQ(status("0;" + std::string(20, 'a') + "\r\n\r\n"), accepted);
  EXPECT_EQ(status("0;" + std::string(21, 'a')), 400);
  EXPECT_EQ(status("1;0123456789\r\nx\r\n0;0123456789\r\n\r\n"), accepted);
  EXPECT_EQ(status("1;0123456789\r\nx\r\n0;0123456789a"), 400) << "of all chunks together";
  EXPECT_EQ(status("0\r\nX: 0123456\r\nY: 0123456\r\n\r\n"), accepted);
  EXPECT_EQ(status("0\r\nX: 0123456\r\nY: 01234567"), 400);
}

/// A second implementation of the rules, over the whole text: what is accepted, and with which bytes.
class reference_decoder {
 public:
  reference_decoder(std::string text, const chunk_limits& limits) : text_(std::move(text)), limits_(limits) {}

  decoded run() {
    while (out_.status == incomplete && take_chunk()) {
    }
    if (out_.status == incomplete && last_) take_trailers();
    return out_;
  }

 private:
  /// False if there is no further chunk.
  bool take_chunk() {
    const auto line = next_line();
    if (!line) return false;
    const auto digits = std::min(line->find_first_not_of("0123456789abcdefABCDEF"), line->size());
    const auto extension = line->substr(digits);
    if (digits < 1 || digits > 16 || (!extension.empty() && extension.front() != ';') || !is_plain(extension))
      return refuse(400);
    num_extension_ += extension.empty() ? 0 : extension.size() - 1;
    if (num_extension_ > limits_.max_extension_bytes) return refuse(400);
    const auto size = std::stoull(line->substr(0, digits), nullptr, 16);
    if (size == 0) {
      last_ = true;
      return false;
    }
    if (size > limits_.max_body_bytes || out_.body.size() + size > limits_.max_body_bytes) return refuse(413);
    const auto data = text_.substr(out_.num_read, size);
    out_.body += data;
    out_.num_read += data.size();
    const auto end = text_.substr(out_.num_read, 2);
    if (data.size() < size || end == "" || end == "\r") return false;
    if (end != "\r\n") return refuse(400);
    out_.num_read += 2;
    return true;
  }

  void take_trailers() {
    std::size_t num_bytes = 0;
    while (const auto line = next_line()) {
      if (line->empty()) {
        out_.status = accepted;
        return;
      }
      num_bytes += line->size();
      const auto colon = line->find(':');
      if (colon == std::string::npos || colon == 0 || num_bytes > limits_.max_trailer_bytes ||
          line->substr(0, colon).find_first_of(" \t\"(),/;<=>?@[\\]{}") != std::string::npos ||
          !is_ascii(line->substr(0, colon)) || !is_plain(*line)) {
        refuse(400);
        return;
      }
    }
  }

  std::optional<std::string> next_line() {
    const auto end = text_.find("\r\n", out_.num_read);
    if (end == std::string::npos) return std::nullopt;
    auto line = text_.substr(out_.num_read, end - out_.num_read);
    out_.num_read = end + 2;
    return line;
  }
  bool refuse(int status) {
    out_.status = status;
    return false;
  }
  static bool is_plain(const std::string& text) {
    return std::none_of(text.begin(), text.end(),
                        [](unsigned char c) { return (c < 32 && c != 9) || c == 127; });
  }
  static bool is_ascii(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 127; });
  }

  const std::string text_;
  const chunk_limits limits_;
  decoded out_;
  std::size_t num_extension_ = 0;
  bool last_ = false;
};

/// Valid bodies and attacks, with some bytes changed, removed, inserted or repeated.
std::string mutated(std::mt19937_64& random, const std::vector<chunk_case>& cases) {
  static constexpr std::string_view telling("\r\n;:0159afAFgx+-. \t\"\0\x7f\x80", 23);
  auto text = cases[random() % cases.size()].text;
  if (random() % 2 == 0) text += cases[random() % cases.size()].text;
  for (auto changes = random() % 4; changes > 0 && !text.empty(); --changes) {
    const auto at = random() % text.size();
    switch (random() % 4) {
    case 0:
      text[at] = telling[random() % telling.size()];
      break;
    case 1:
      text.erase(at, 1 + random() % 3);
      break;
    case 2:
      text.insert(at, 1, telling[random() % telling.size()]);
      break;
    default:
      text.insert(at, text.substr(random() % text.size(), random() % 8));
    }
  }
  return text;
}

TEST(chunk_decoder, agrees_with_the_rules_on_mutated_bodies) {
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto cases = all_cases();
  const chunk_limits limits{24, 12, 24};
  std::size_t num_accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto text = mutated(random, cases);
    const auto expected = reference_decoder(text, limits).run();
    const auto made = decode(text, limits, [&] { return 1 + random() % 5; });
    ASSERT_LE(made.body.size(), limits.max_body_bytes);
    // The decoder need not see the end of a line to refuse it.
    const bool refused_early = expected.status == incomplete && made.status >= 400;
    if (!refused_early) {
      ASSERT_EQ(made.status, expected.status) << "seed " << seed << ", text " << testing::PrintToString(text);
    }
    if (expected.status == accepted) {
      ASSERT_EQ(made, expected) << "seed " << seed << ", text " << testing::PrintToString(text);
      ++num_accepted;
    }
  }
  EXPECT_GT(num_accepted, 10'000U) << "else the mutations say little";
}

} // namespace
} // namespace paceline::server
