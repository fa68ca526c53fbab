#include "engine/job_sharing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

class watched_mutex {
 public:
  void lock() { locked_ = true; }
  void unlock() { locked_ = false; }
  bool locked() const { return locked_; }

 private:
  bool locked_ = false;
};

/// Notes whether its mutex was held when somebody was woken.
struct watched_condition {
  void notify_one() {
    ++num_wakes;
    any_under_lock = any_under_lock || mutex->locked();
  }
  template <class Guard, class Ready>
  void wait(Guard&, Ready ready) {
    if (!ready()) ADD_FAILURE() << "there is no job";
  }
  const watched_mutex* mutex = nullptr;
  int num_wakes = 0;
  bool any_under_lock = false;
};

using sharing = job_sharing<watched_mutex, watched_condition>;

/// Coordinator and worker at once: both have the policy's data.
struct threads {
  threads() : shared(this) { shared.filled.mutex = &shared.lock; }
  sharing::coordinator_data& data() { return shared; }
  threads* parent() { return this; }
  sharing::coordinator_data shared;
};

struct job final : caf::resumable {
  resume_result resume(caf::execution_unit*, std::size_t) override { return done; }
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override {}
};

TEST(job_sharing, wakes_a_worker_when_nobody_holds_the_queue) {
  sharing policy;
  threads all;
  job first, second, third, fourth;
  policy.central_enqueue(&all, &first);
  policy.external_enqueue(&all, &second);
  policy.internal_enqueue(&all, &third);
  policy.resume_job_later(&all, &fourth);
  EXPECT_EQ(all.shared.filled.num_wakes, 4);
  EXPECT_FALSE(all.shared.filled.any_under_lock);
}

TEST(job_sharing, gives_jobs_in_the_order_in_which_they_came) {
  sharing policy;
  threads all;
  job first, second, third;
  policy.external_enqueue(&all, &first);
  policy.resume_job_later(&all, &second);
  policy.central_enqueue(&all, &third);
  EXPECT_EQ(policy.dequeue(&all), &first);
  EXPECT_EQ(policy.dequeue(&all), &second);
  EXPECT_FALSE(all.shared.lock.locked());
  std::vector<caf::resumable*> left;
  policy.foreach_central_resumable(&all, [&](caf::resumable* one) { left.push_back(one); });
  EXPECT_EQ(left, std::vector<caf::resumable*>{&third});
  EXPECT_TRUE(all.shared.queue.empty());
}

} // namespace
} // namespace paceline
