#include "server/http/access.hpp"

#include "config/host_names.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace paceline::server {
namespace {

TEST(key_ring, holds_exactly_its_keys) {
  const key_ring keys({"alpha", "beta"});
  EXPECT_TRUE(keys.holds("alpha"));
  EXPECT_TRUE(keys.holds("beta"));
  for (const auto* other : {"", "alph", "alphaa", "Alpha", "gamma"}) EXPECT_FALSE(keys.holds(other)) << other;
  EXPECT_FALSE(key_ring().holds(""));
}

TEST(key_ring, digests_are_sha_256) {
  EXPECT_EQ(to_hex(digest_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

class key_file : public ::testing::Test {
 protected:
  test::scratch_folder folder;
  std::string path = folder / "keys";
  void write(std::string_view text) { std::ofstream(path, std::ios::binary) << text; }
};

TEST_F(key_file, has_one_key_a_line) {
  write("# the team's\nalpha\r\n\nbeta\n");
  const auto keys = key_ring::load(path);
  ASSERT_TRUE(keys) << keys.error().message();
  EXPECT_TRUE(keys->holds("alpha") && keys->holds("beta"));
  EXPECT_FALSE(keys->holds("# the team's"));
}

TEST_F(key_file, refuses_what_is_no_key_and_never_repeats_it) {
  write("alpha\nsecret with spaces\n");
  const auto keys = key_ring::load(path);
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().message().find(":2:"), std::string::npos);
  EXPECT_EQ(keys.error().message().find("secret"), std::string::npos);
  write("# nothing\n");
  EXPECT_FALSE(key_ring::load(path));
  EXPECT_FALSE(key_ring::load(path + ".missing"));
}

TEST_F(key_file, says_behind_a_key_how_far_forward_it_may_push) {
  write("alpha\nbeta best_priority=-5\n");
  const auto keys = key_ring::load(path);
  ASSERT_TRUE(keys) << keys.error().message();
  EXPECT_EQ(keys->find("alpha")->best_priority, 0);
  EXPECT_EQ(keys->find("beta")->best_priority, -5);
  EXPECT_FALSE(keys->find("beta best_priority=-5"));
  EXPECT_FALSE(keys->find("gamma"));
  for (const auto* wrong : {"beta best_priority=", "beta best_priority=x", "beta best_priority=1 2",
                            "beta priority=1", " best_priority=1", "beta best_priority=9999999999"}) {
    write(wrong);
    EXPECT_FALSE(key_ring::load(path)) << wrong;
  }
}

TEST_F(key_file, tells_what_a_new_one_changed) {
  const auto ring = [&](const char* text) {
    write(text);
    return *key_ring::load(path);
  };
  const auto before = ring("alpha\nbeta\ngamma best_priority=-1\n");
  EXPECT_FALSE(before.since(before).any());
  EXPECT_FALSE(ring("# in another order\ngamma best_priority=-1\nbeta\nalpha\n").since(before).any());
  EXPECT_EQ(ring("alpha\ngamma best_priority=-2\ndelta\nepsilon\n").since(before), (key_changes{2, 1, 1}));
  EXPECT_EQ(before.since({}), (key_changes{3, 0, 0}));
  EXPECT_EQ(key_ring().since(before), (key_changes{0, 3, 0}));
}

TEST(bearer_key, is_read_in_any_case) {
  EXPECT_EQ(bearer_key("Bearer abc"), "abc");
  EXPECT_EQ(bearer_key("bearer  abc"), "abc");
  for (const auto* other : {"", "Bearer", "Bearer ", "Basic abc", "abc"})
    EXPECT_EQ(bearer_key(other), "") << other;
}

TEST(loopback, names_only_this_machine) {
  for (const auto* host : {"localhost", "localhost:8000", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:8000"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const auto* host : {"", "localhost.evil.com", "127.evil.com", "127.0.0.1.evil.com", "10.0.0.1",
                           "example.com", "[::2]", "0.0.0.0"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
  EXPECT_TRUE(config::is_loopback_address("127.0.0.1"));
  EXPECT_TRUE(config::is_loopback_address("::1"));
  EXPECT_FALSE(config::is_loopback_address("0.0.0.0"));
  EXPECT_FALSE(config::is_loopback_address("::"));
}

TEST(access, hosts_and_origins_follow_the_table) {
  struct row {
    const char* host;
    const char* origin;
    bool loopback_bind;
    std::vector<std::string> hosts;
    std::vector<std::string> origins;
    bool host_ok;
    bool origin_ok;
  };
  const row table[] = {
      {"localhost:8000", "", true, {}, {}, true, true},
      {"127.0.0.1:8000", "http://127.0.0.1:8000", true, {}, {}, true, true},
      {"localhost:8000", "http://localhost:3000", true, {}, {}, true, true},
      {"localhost:8000", "https://evil.com", true, {}, {}, true, false},
      {"localhost:8000", "null", true, {}, {}, true, false},
      {"localhost:8000", "http://localhost.evil.com", true, {}, {}, true, false},
      {"localhost:8000", "http://evil.com/localhost", true, {}, {}, true, false},
      {"localhost:8000", "file://", true, {}, {}, true, false},
      {"evil.com:8000", "", true, {}, {}, false, true}, // DNS rebinding
      {"evil.com:8000", "http://evil.com:8000", true, {}, {}, false, true},
      {"box.lan:8000", "", true, {"box.lan"}, {}, true, true},
      {"box.lan:8000", "", true, {"box.lan:8000"}, {}, true, true},
      {"box.lan:8001", "", true, {"box.lan:8000"}, {}, false, true},
      {"box.lan", "", false, {}, {}, true, true},
      {"box.lan", "", false, {"other.lan"}, {}, false, true},
      {"localhost:8000", "", false, {"other.lan"}, {}, true, true}, // the sender is on this machine
      {"127.0.0.1", "", false, {"other.lan"}, {}, true, true},
      {"127.evil.com", "", false, {"other.lan"}, {}, false, true},
      {"box.lan", "http://box.lan", false, {}, {}, true, true},
      {"box.lan", "https://box.lan", false, {}, {}, true, true},
      {"box.lan", "https://app.example", false, {}, {}, true, false},
      {"box.lan", "https://app.example", false, {}, {"https://app.example"}, true, true},
      {"box.lan", "http://app.example", false, {}, {"https://app.example"}, true, false},
      {"box.lan", "https://anything", false, {}, {"*"}, true, true},
  };
  for (const auto& r : table) {
    EXPECT_EQ(host_allowed(r.host, {r.loopback_bind ? "127.0.0.1" : "0.0.0.0", true, r.hosts}), r.host_ok)
        << r.host << ' ' << r.origin;
    EXPECT_EQ(origin_allowed(r.origin, r.host, r.origins), r.origin_ok) << r.host << ' ' << r.origin;
  }
}

TEST(access, headers_of_a_preflight_are_permitted_by_name) {
  const auto always = permitted_headers("");
  EXPECT_EQ(permitted_headers("content-type, x-evil,,  ,cookie"), always);
  EXPECT_EQ(permitted_headers("x-stainless-").size(), always.size());
  EXPECT_EQ(permitted_headers("x-stainless-a b: c").size(), always.size()) << "not a name";
  EXPECT_EQ(permitted_headers("X-Stainless-OS,x-stainless-os").size(), always.size() + 1);
  EXPECT_EQ(permitted_headers("x-stainless-os").back(), "x-stainless-os");
}

TEST(access, a_page_offers_its_key_as_a_sub_protocol) {
  const auto read = [](std::string_view header) {
    const auto found = read_protocols(header);
    return std::pair(std::string(found.key), std::string(found.answer));
  };
  using both = std::pair<std::string, std::string>;
  EXPECT_EQ(read("realtime, openai-insecure-api-key.sk-1, openai-beta.realtime-v1"),
            both("sk-1", "realtime"));
  EXPECT_EQ(read("openai-insecure-api-key.sk-1,\topenai-beta.realtime-v1 "),
            both("sk-1", "openai-beta.realtime-v1"));
  EXPECT_EQ(read("openai-insecure-api-key.a,openai-insecure-api-key.b"), both("a", ""))
      << "a key is no answer";
  EXPECT_EQ(read("openai-organization.o, openai-project.p, realtime"), both("", "realtime"));
  EXPECT_EQ(read("not a name, x\"y, realtime"), both("", "realtime"));
  for (const auto* none : {"", ",", " , ", "openai-insecure-api-key.", "openai-insecure-api-key"})
    EXPECT_EQ(read(none).first, "") << none;
  EXPECT_EQ(read(std::string(100, 'x')), both("", ""));
}

TEST(access, names_of_hosts_compare_without_case) {
  const std::vector<std::string> listed{"Box.LAN"};
  EXPECT_TRUE(host_allowed("box.lan:8000", {"127.0.0.1", true, listed}));
  EXPECT_TRUE(host_allowed("BOX.lan", {"0.0.0.0", true, listed}));
  EXPECT_TRUE(is_loopback_host("LocalHost:8000"));
  EXPECT_TRUE(origin_allowed("http://app.example", "x", {"http://App.Example"}));
}

TEST(access, an_address_has_four_octets) {
  for (const auto* host :
       {"127.999.0.1", "127.0.0", "127.0.0.1.1", "127.0.0.", "127..0.1", "127.0.0.1x", "127.0.0.0001"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
  for (const auto* host : {"10.0.0.1", "10.0.0.1:80", "[fe80::1]", "[::ffff:10.0.0.1]:80"})
    EXPECT_TRUE(is_ip_literal(host)) << host;
  for (const auto* host : {"", "box.lan", "256.0.0.1", "[box]", "[]", "[:"})
    EXPECT_FALSE(is_ip_literal(host)) << host;
}

TEST(access, an_open_bind_without_keys_serves_no_name_that_a_page_could_have) {
  const std::vector<std::string> none;
  const host_rules open{"box.lan", false, none};
  EXPECT_FALSE(host_allowed("evil.com:8000", open));
  for (const auto* host : {"10.0.0.1:8000", "[fe80::1]:8000", "localhost:8000", "Box.lan:8000"})
    EXPECT_TRUE(host_allowed(host, open)) << host;
  EXPECT_TRUE(host_allowed("evil.com:8000", {"0.0.0.0", true, none}));
  const std::vector<std::string> listed{"api.example"};
  EXPECT_TRUE(host_allowed("api.example", {"0.0.0.0", false, listed}));
  EXPECT_FALSE(host_allowed("10.0.0.1", {"0.0.0.0", false, listed}));
}

} // namespace
} // namespace paceline::server
