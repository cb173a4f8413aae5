#include "broker/login_guard.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

LoginOrigin from(std::string address) { return {std::move(address), false}; }
SteadyTime second(int64_t n) { return SteadyTime{n * 1'000'000'000}; }

TEST(LoginGuard, AfterItsShareOfFailuresAnAddressIsNotHeardUntilTimeHasPassed) {
  LoginGuard guard(4);  // one every 15 s in the long run
  for (int n = 0; n < 4; ++n) {
    EXPECT_TRUE(guard.may_try(from("192.0.2.1"), second(100)));
    EXPECT_EQ(guard.failed(from("192.0.2.1"), second(100)), n == 3);
  }
  EXPECT_FALSE(guard.may_try(from("192.0.2.1"), second(100)));
  EXPECT_FALSE(guard.may_try(from("192.0.2.1"), second(114)));
  EXPECT_TRUE(guard.may_try(from("192.0.2.1"), second(115)));
  EXPECT_TRUE(guard.failed(from("192.0.2.1"), second(115)));
  EXPECT_FALSE(guard.may_try(from("192.0.2.1"), second(129)));
  EXPECT_TRUE(guard.may_try(from("192.0.2.1"), second(130)));
  for (int n = 0; n < 4; ++n) EXPECT_EQ(guard.failed(from("192.0.2.1"), second(1000)), n == 3);
}

TEST(LoginGuard, OthersAreNotHeldToIt) {
  LoginGuard guard(1);
  EXPECT_TRUE(guard.failed(from("192.0.2.1"), second(0)));
  EXPECT_FALSE(guard.may_try(from("192.0.2.1"), second(1)));
  EXPECT_TRUE(guard.may_try(from("192.0.2.2"), second(1)));
  EXPECT_TRUE(guard.failed(from("2001:db8:0:1::1"), second(0)));
  EXPECT_FALSE(guard.may_try(from("2001:db8:0:1:ffff::9"), second(1)));
  EXPECT_TRUE(guard.may_try(from("2001:db8:0:2::1"), second(1)));
}

TEST(LoginGuard, ThisMachineIsNotCountedAndZeroIsNoCap) {
  LoginGuard guard(1), none(0);
  for (int n = 0; n < 100; ++n) {
    EXPECT_FALSE(guard.failed({"127.0.0.1", true}, second(0)));
    EXPECT_FALSE(none.failed(from("192.0.2.1"), second(0)));
  }
  EXPECT_TRUE(guard.may_try({"127.0.0.1", true}, second(0)));
  EXPECT_TRUE(none.may_try(from("192.0.2.1"), second(0)));
}

TEST(LoginGuard, ManyAddressesDoNotMakeItForgetHowToRefuse) {
  LoginGuard guard(1);
  for (int n = 0; n < 40'000; ++n) {
    const std::string address = "10." + std::to_string(n >> 16) + "." +
                                std::to_string(n >> 8 & 255) + "." + std::to_string(n & 255);
    ASSERT_TRUE(guard.failed(from(address), second(0)));
    ASSERT_FALSE(guard.may_try(from(address), second(0)));
  }
}

}  // namespace
}  // namespace tarry
