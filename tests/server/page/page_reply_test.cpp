#include "server/page/page.hpp"

#include "served.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(page_reply, sends_a_file_with_its_type_and_policy) {
  const std::pair<const char*, const char*> files[] = {{"index.html", "text/html; charset=utf-8"},
                                                       {"style.css", "text/css; charset=utf-8"},
                                                       {"app.js", "text/javascript; charset=utf-8"}};
  for (const auto& [name, type] : files) {
    const auto reply = page_reply(name, "");
    EXPECT_EQ(reply.status, 200) << name;
    EXPECT_EQ(reply.content_type, type);
    EXPECT_FALSE(reply.body.empty());
    const auto policy = header_of(reply.headers, "Content-Security-Policy");
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'"));
  }
}

TEST(page_reply, a_known_version_is_not_sent_again) {
  const auto tag = header_of(page_reply("app.js", "").headers, "ETag");
  ASSERT_EQ(tag.size(), 66U);
  EXPECT_NE(tag, header_of(page_reply("api.js", "").headers, "ETag"));
  for (const auto& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    const auto reply = page_reply("app.js", known);
    EXPECT_EQ(reply.status, 304) << known;
    EXPECT_TRUE(reply.body.empty());
    EXPECT_EQ(header_of(reply.headers, "ETag"), tag);
  }
  for (const auto* other : {"", "\"other\"", "app.js"}) EXPECT_EQ(page_reply("app.js", other).status, 200);
}

TEST(page_reply, there_are_no_other_files) {
  for (const auto* name : {"", "none.js", "../page.cpp", "page.cpp", "/index.html", "INDEX.HTML"})
    EXPECT_EQ(page_reply(name, "").status, 404) << name;
}

} // namespace
} // namespace paceline::server
