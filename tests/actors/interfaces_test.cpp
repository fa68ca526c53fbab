#include "protocol/type_ids.hpp"
#include "tests/support/simulation.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace paceline {
namespace {

/// Messages named in the first column of the table in an interface's comment.
std::set<std::string> documented(const std::string& header) {
  std::ifstream file(std::string(PACELINE_SOURCE_DIR) + "/protocol/actors/" + header);
  std::set<std::string> out;
  const std::regex row(R"(^/// \| (\w+) \|)");
  for (std::string line; std::getline(file, line);)
    if (std::smatch m; std::regex_search(line, m, row) && m[1] != "message") out.insert(m[1]);
  return out;
}

/// Messages that the typed handle accepts, by CAF's names.
template <class Handle>
std::set<std::string> accepted() {
  caf::actor_system_config configuration;
  configuration.add_message_types<caf::id_block::paceline>();
  configuration.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system(configuration);
  std::set<std::string> out;
  const std::regex name(R"(paceline::protocol::(\w+))");
  for (const auto& signature : system.message_types<Handle>()) {
    std::smatch m; // the first message of a signature is the request, a second one the reply
    if (std::regex_search(signature, m, name)) out.insert(m[1]);
  }
  return out;
}

TEST(interfaces, tables_name_exactly_the_messages_that_are_taken) {
  EXPECT_EQ(documented("scheduler_actor.hpp"), accepted<protocol::scheduler_actor>());
  EXPECT_EQ(documented("kv_pool_actor.hpp"), accepted<protocol::kv_pool_actor>());
  EXPECT_EQ(documented("target_verifier_actor.hpp"), accepted<protocol::target_verifier_actor>());
  EXPECT_EQ(documented("draft_worker_actor.hpp"), accepted<protocol::draft_worker_actor>());
  EXPECT_EQ(documented("fan_out_actor.hpp"), accepted<protocol::fan_out_actor>());
  EXPECT_EQ(documented("session_actor.hpp"), accepted<protocol::session_actor>());
  EXPECT_FALSE(accepted<protocol::session_actor>().empty());
}

} // namespace
} // namespace paceline
