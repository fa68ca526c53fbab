// When an engine counts as healthy, and which faults it reports.
#include "actors/directory.hpp"

#include <gtest/gtest.h>

namespace paceline::actors {
namespace {

const error broken{errc::out_of_service, "it is broken"};

TEST(directory, is_healthy_while_one_model_serves) {
  directory where;
  EXPECT_TRUE(where.healthy()) << "nothing is known yet";
  where.set_num_models(2);
  where.take_out_of_service(model_number{0}, broken);
  where.take_out_of_service(model_number{0}, broken); // reported twice
  EXPECT_TRUE(where.healthy());
  where.take_out_of_service(model_number{1}, broken);
  EXPECT_FALSE(where.healthy());
}

TEST(directory, a_fault_alone_does_not_make_it_unhealthy) {
  directory where;
  where.set_num_models(1);
  where.faults()->note_lost(worker_of(model_number{0}, drafter_index{1}), broken);
  EXPECT_TRUE(where.healthy());
}

TEST(directory, is_unhealthy_while_a_device_does_not_answer) {
  directory where;
  where.set_num_models(2);
  where.meter("scheduler/1")->failing = true;
  EXPECT_FALSE(where.healthy());
  where.meter("scheduler/1")->failing = false;
  EXPECT_TRUE(where.healthy());
}

TEST(directory, is_unhealthy_for_good_once_nobody_is_started_again) {
  directory where;
  where.set_num_models(1);
  where.mark_unhealthy();
  EXPECT_FALSE(where.healthy());
}

TEST(fault_book, counts_failures_and_keeps_the_reason_of_the_end) {
  const auto drafter = drafter_of(model_number{0}, drafter_index{1});
  fault_book faults;
  faults.note(drafter, {errc::internal, "first"});
  faults.note(drafter, {errc::internal, "second"});
  EXPECT_EQ(faults.all().at(drafter).num, 2U);
  EXPECT_EQ(faults.all().at(drafter).last.message(), "second");
  EXPECT_FALSE(faults.all().at(drafter).is_lost);
  faults.note_lost(drafter, broken);
  faults.note(drafter, {errc::internal, "late"});
  EXPECT_EQ(faults.all().at(drafter).num, 4U);
  EXPECT_TRUE(faults.all().at(drafter).is_lost);
  EXPECT_EQ(faults.all().at(drafter).last, broken);
  EXPECT_EQ(faults.all().size(), 1U);
}

} // namespace
} // namespace paceline::actors
