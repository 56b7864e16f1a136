#include "lockstep/base/peer_user.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"

namespace lockstep {
namespace {

class PeerUserTest : public ::testing::TestWithParam<const char*> {
 protected:
  /// False on a host without IPv6.
  bool listens() {
    try {
      listener_ = listen_at(GetParam());
      return true;
    } catch (const CommError&) {
      return GetParam() == std::string("127.0.0.1");
    }
  }

  UniqueFd connect() const {
    return connect_tcp(GetParam(), listener_.port, Clock::now() + std::chrono::seconds(5));
  }

  UniqueFd accept() const {
    std::string from;
    UniqueFd fd;
    while (!fd) fd = accept_from(listener_, from);
    return fd;
  }

  Listener listener_;
};

TEST_P(PeerUserTest, tells_own_connections_from_closed_ones_and_those_of_others) {
  if (!listens()) return;
  const UniqueFd own = connect();
  EXPECT_EQ(peer_user(accept().get()), PeerUser::kOwn);
  connect();
  EXPECT_EQ(peer_user(accept().get()), PeerUser::kNobody);
  // Only root can be somebody else.
  if (::geteuid() != 0) return;
  ASSERT_EQ(::seteuid(65534), 0);
  const UniqueFd other = connect();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(peer_user(accept().get()), PeerUser::kOther);
}

INSTANTIATE_TEST_SUITE_P(Addresses, PeerUserTest, ::testing::Values("127.0.0.1", "::1"));

}  // namespace
}  // namespace lockstep
