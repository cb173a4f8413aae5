#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

/// A client that publishes what nobody takes, and does not read what comes back.
struct Unread : SessionTest {
  void open() {
    settings.outbound_high_bytes = 1'000;  // so that input stops at 4,000
    open_connection();
    open_channel();
    stuck = true;
    publish_twenty();
  }
  /// As many receives.
  void publish_twenty() {
    for (int i = 0; i < 20; ++i) {
      publish(1, "", "nowhere", std::string(500, 'x'), true);
      pump();
    }
  }
  void read(size_t bytes) {
    on_shard([&] {
      pipe.buffer.consume(bytes);
      connection->on_sent();
    });
  }
};

TEST_F(Unread, NoMoreIsHeardUntilHalfOfItIsRead) {
  open();
  const size_t unsent = pipe.buffer.unsent_bytes();
  EXPECT_GT(unsent, 4'000u);
  EXPECT_LT(unsent, 4'000u + 1'000u);
  EXPECT_FALSE(pipe.reading);
  EXPECT_GT(input.size(), 20u * 500 / 2);
  read(unsent - 2'001);
  EXPECT_FALSE(pipe.reading);
  read(1);
  EXPECT_TRUE(pipe.reading);
  stuck = false;
  pump();
  EXPECT_TRUE(input.empty());
  EXPECT_TRUE(pipe.reading);
}

TEST_F(Unread, DeliveriesDoNotCount) {
  settings.outbound_high_bytes = 1'000;
  access.vhost->add("q");
  open_connection();
  open_channel();
  consume();
  stuck = true;
  deliver(0, {std::string(10'000, 'd')});
  publish(1, "", "nowhere", std::string(500, 'x'), true);
  pump();
  EXPECT_TRUE(input.empty());
  EXPECT_TRUE(pipe.reading);
  publish_twenty();
  EXPECT_FALSE(pipe.reading);
}

TEST_F(Unread, WhoIsClosedIsHeardToTheEnd) {
  open();
  ASSERT_FALSE(pipe.reading);
  on_shard([&] { list.close(connection->id(), 320, "enough"); });
  EXPECT_TRUE(pipe.reading);
  say(0, method::ConnectionCloseOk{});
  pump();
  EXPECT_TRUE(input.empty());
  EXPECT_TRUE(pipe.closing);
}

}  // namespace
}  // namespace tarry::testing
