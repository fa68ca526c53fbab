// The rules of graphs on the emulation. They are those of real graphs, and include violations that bugs would
// cause.
#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/owners.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace paceline::gpu::emulation {
namespace {

constexpr std::uint32_t count = 8;
constexpr std::size_t bytes = count * sizeof(float);

/// Commands complete when issued.
class late_runtime final : public emulated_runtime {
 public:
  void do_all() {
    for (auto& command : std::exchange(commands_, {})) command();
  }

 protected:
  void defer(raw_stream, std::function<void()> command) override { commands_.push_back(std::move(command)); }

 private:
  std::vector<std::function<void()>> commands_;
};

/// A graph that copies `sent` to the device, and doubles it `num_doublings` times before it comes back.
class emulated_graphs : public ::testing::Test {
 protected:
  emulated_graphs() {
    queue_.fill(value_.data(), 0, bytes);
    EXPECT_EQ(runtime_.make_graph(graph_), 0);
    EXPECT_EQ(runtime_.add_copy(in_, graph_, nullptr, send(0)), 0);
    EXPECT_EQ(runtime_.add_launch(doubling_, graph_, in_, doubling(params_)), 0);
    EXPECT_EQ(runtime_.add_copy(out_, graph_, doubling_, bring()), 0);
    std::fill_n(sent(0), count, 1.0F);
    std::fill_n(sent(1), count, 10.0F);
  }
  ~emulated_graphs() override {
    if (executable_ != nullptr) runtime_.end_executable(executable_);
    if (graph_ != nullptr) runtime_.end_graph(graph_);
    runtime_.do_all();
  }

  float* sent(std::size_t at) { return reinterpret_cast<float*>(sent_.data() + at * bytes); }
  float* value() { return reinterpret_cast<float*>(value_.data()); }
  copy_command send(std::size_t at) { return {value_.data(), sent(at), bytes, false}; }
  copy_command bring() { return {fetched_.data(), value_.data(), bytes, true}; }
  static launch_command doubling(const add_params& params) {
    return {kernel_id::add, {1, 1, 32, 0}, &params, sizeof params};
  }
  float launched() {
    EXPECT_EQ(runtime_.launch_graph(executable_, queue_.raw()), 0);
    runtime_.do_all();
    return fetched();
  }
  float fetched(std::size_t at = 0) const { return reinterpret_cast<const float*>(fetched_.data())[at]; }

  late_runtime runtime_;
  device_context on_{runtime_, 0, "cuda:0"};
  command_queue queue_{on_, 0};
  memory value_{on_, memory_kind::on_device, bytes}, sent_{on_, memory_kind::pinned, 2 * bytes},
      fetched_{on_, memory_kind::pinned, bytes};
  add_params params_{value(), count, value(), count, count};
  raw_graph graph_ = nullptr;
  raw_node in_ = nullptr, doubling_ = nullptr, out_ = nullptr;
  raw_executable executable_ = nullptr;
};

TEST_F(emulated_graphs, take_params_when_they_are_added_and_nodes_when_they_are_instantiated) {
  params_.width = 0; // as if the struct had another use
  ASSERT_EQ(runtime_.make_executable(executable_, graph_), 0);
  raw_node late = nullptr;
  params_.width = count;
  ASSERT_EQ(runtime_.add_launch(late, graph_, in_, doubling(params_)), 0);
  EXPECT_EQ(launched(), 2);
}

TEST_F(emulated_graphs, read_memory_when_a_nodes_turn_comes) {
  ASSERT_EQ(runtime_.make_executable(executable_, graph_), 0);
  ASSERT_EQ(runtime_.launch_graph(executable_, queue_.raw()), 0);
  std::fill_n(sent(0), count, 3.0F);
  runtime_.do_all();
  EXPECT_EQ(fetched(), 6) << "not as it was at the launch";
}

TEST_F(emulated_graphs, are_changed_by_updates_for_later_launches_only) {
  ASSERT_EQ(runtime_.make_executable(executable_, graph_), 0);
  EXPECT_EQ(launched(), 2);
  ASSERT_EQ(runtime_.launch_graph(executable_, queue_.raw()), 0);
  ASSERT_EQ(runtime_.update_copy(executable_, in_, send(1)), 0);
  runtime_.do_all();
  EXPECT_EQ(fetched(count - 1), 2) << "as it was launched";
  EXPECT_EQ(launched(), 20);
  raw_executable other = nullptr;
  ASSERT_EQ(runtime_.make_executable(other, graph_), 0);
  std::swap(executable_, other);
  EXPECT_EQ(launched(), 2) << "the graph itself has not changed";
  runtime_.end_executable(other);
}

TEST_F(emulated_graphs, may_go_while_a_launch_is_under_way) {
  ASSERT_EQ(runtime_.make_executable(executable_, graph_), 0);
  ASSERT_EQ(runtime_.launch_graph(executable_, queue_.raw()), 0);
  runtime_.end_executable(std::exchange(executable_, nullptr));
  runtime_.end_graph(std::exchange(graph_, nullptr));
  runtime_.do_all();
  EXPECT_EQ(fetched(), 2);
}

TEST_F(emulated_graphs, refuse_what_a_gpu_does) {
  ASSERT_EQ(runtime_.make_executable(executable_, graph_), 0);
  raw_node none = nullptr;
  copy_command empty = send(0);
  empty.num_bytes = 0;
  EXPECT_NE(runtime_.add_copy(none, graph_, nullptr, empty), 0);
  EXPECT_NE(runtime_.update_copy(executable_, in_, empty), 0);
  EXPECT_NE(runtime_.add_copy(none, graph_, &none, send(0)), 0) << "after a node of nowhere";
  EXPECT_NE(runtime_.update_copy(executable_, in_, bring()), 0) << "another direction";
  EXPECT_NE(runtime_.update_copy(executable_, doubling_, send(0)), 0) << "no copy";
  raw_node late = nullptr;
  ASSERT_EQ(runtime_.add_copy(late, graph_, out_, send(0)), 0);
  EXPECT_NE(runtime_.update_copy(executable_, late, send(0)), 0) << "not there when it was made";
  runtime_.end_graph(std::exchange(graph_, nullptr));
  EXPECT_NE(runtime_.update_copy(executable_, in_, send(1)), 0) << "its nodes have gone with the graph";
  EXPECT_EQ(launched(), 2);
}

TEST_F(emulated_graphs, are_in_the_order_of_their_edges_and_of_nothing_else) {
  raw_graph unordered = nullptr;
  ASSERT_EQ(runtime_.make_graph(unordered), 0);
  raw_node first = nullptr, second = nullptr;
  ASSERT_EQ(runtime_.add_copy(first, unordered, nullptr, send(1)), 0);
  ASSERT_EQ(runtime_.add_copy(second, unordered, nullptr, bring()), 0); // an edge is missing
  ASSERT_EQ(runtime_.make_executable(executable_, unordered), 0);
  EXPECT_EQ(launched(), 0) << "fetched before it was sent";
  runtime_.end_graph(unordered);
}

} // namespace
} // namespace paceline::gpu::emulation
