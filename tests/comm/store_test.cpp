#include "lockstep/comm/store.h"

#include <gtest/gtest.h>

#include "comm/store_contract.h"

namespace lockstep::comm {
namespace {

TEST(HashStoreTest, keeps_values) {
  HashStore store;
  check_values(store, store);
}

TEST(HashStoreTest, get_waits_for_the_key_and_names_it_when_it_never_comes) {
  HashStore store;
  check_waiting(store);
}

TEST(HashStoreTest, add_is_atomic) {
  HashStore store;
  check_counting(store);
}

}  // namespace
}  // namespace lockstep::comm
