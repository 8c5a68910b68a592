// newest: prints the items that a NewestWorker handles when a hundred come while it handles the first.
#include <cstdio>
#include <future>

#include "tvmbuild_detector/newest_worker.hpp"

int main() {
  std::promise<void> begun, may_end, handled_last;
  std::future<void> end = may_end.get_future();
  {
    tvmbuild_detector::NewestWorker<int> worker([&](int item) {
      std::printf("%d\n", item);
      if (item == 0) begun.set_value();
      if (item == 0) end.wait();
      if (item == 100) handled_last.set_value();
    });
    worker.submit(0);
    begun.get_future().wait();
    for (int item = 1; item <= 100; item++) worker.submit(item);
    may_end.set_value();
    handled_last.get_future().wait();
    std::printf("dropped %d\n", static_cast<int>(worker.dropped()));
  }
  {
    tvmbuild_detector::NewestWorker<int> idle([](int) {});
  }  // it ends without any item
  return 0;
}
