#include <algorithm>

#include <gtest/gtest.h>

#include "lockstep/links/record.h"

namespace lockstep::links {
namespace {

TEST(InterfacesTest, loopback_is_there_and_states_no_speed) {
  const std::vector<Interface> all = network_interfaces();
  const auto loopback = std::ranges::find(all, "lo", &Interface::name);
  ASSERT_NE(loopback, all.end());
  EXPECT_NE(std::ranges::find(loopback->addresses, "127.0.0.1/8"), loopback->addresses.end());
  EXPECT_FALSE(loopback->gbit_per_s);
}

TEST(InterfacesTest, addresses_of_one_network_share_their_prefix_and_differ) {
  EXPECT_TRUE(on_one_network("198.51.100.1/24", "198.51.100.200/24"));
  EXPECT_TRUE(on_one_network("10.1.0.1/20", "10.1.15.1/20"));
  EXPECT_FALSE(on_one_network("10.1.0.1/20", "10.1.16.1/20"));
  EXPECT_TRUE(on_one_network("2001:db8::1/64", "2001:db8::2/64"));
  EXPECT_FALSE(on_one_network("2001:db8::1/64", "2001:db8:0:1::1/64"));
  // A bridge for containers has one address everywhere.
  EXPECT_FALSE(on_one_network("172.17.0.1/16", "172.17.0.1/16"));
  EXPECT_FALSE(on_one_network("198.51.100.1/24", "198.51.100.2/25"));
  EXPECT_FALSE(on_one_network("198.51.100.1/32", "198.51.100.2/32"));
  EXPECT_FALSE(on_one_network("198.51.100.1/24", "2001:db8::1/24"));
  for (const char* wrong : {"", "198.51.100.1", "198.51.100.1/33", "198.51.100.1/x", "host/24"})
    EXPECT_FALSE(on_one_network(wrong, "198.51.100.2/24")) << wrong;
}

}  // namespace
}  // namespace lockstep::links
