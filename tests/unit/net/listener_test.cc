#include "tarrymq/net/listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

constexpr int kDeadlineMs = 20'000;  // far more than needed; a test that needs it has failed

/// A blocking client with a deadline.
class Client {
 public:
  Client() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connect(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  template <class M>
  void say(uint16_t channel, const M& m) {
    TextSink sink;
    append_method(sink, channel, m);
    send(sink.text);
  }
  /// False at the end of the stream, on a reset or when the deadline passes.
  bool receive() {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, kDeadlineMs) != 1) return false;
    char buffer[65536];
    ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0) reset_ = true;
    if (n <= 0) return false;
    input_.append(buffer, static_cast<size_t>(n));
    return true;
  }
  bool quiet_for(int ms) const {
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, ms) == 0;
  }
  void end_stream() { ::shutdown(fd_, SHUT_WR); }
  std::string rest() {
    while (receive()) {
    }
    return input_;
  }
  bool was_reset() const { return reset_; }
  Got next() {
    while (true) {
      DecodedFrame f = decode_frame(as_bytes(input_), UINT32_MAX);
      if (f.status == FrameStatus::frame) {
        Got got{f.type, f.channel, std::string(as_text(f.payload))};
        input_.erase(0, f.total_bytes);
        return got;
      }
      if (!receive()) return {};
    }
  }
  void open(const std::string& password = "guest") {
    send(kProtocolHeader);
    EXPECT_EQ(next().id(), method_id::connection_start);
    const std::string response = std::string("\0guest\0", 7) + password;
    say(0, method::ConnectionStartOk{{}, "PLAIN", response, "en_US"});
    if (password != "guest") return;
    EXPECT_EQ(next().id(), method_id::connection_tune);
    say(0, method::ConnectionTuneOk{0, 0, 0});
    say(0, method::ConnectionOpen{"/"});
    EXPECT_EQ(next().id(), method_id::connection_open_ok);
    say(1, method::ChannelOpen{});
    EXPECT_EQ(next().id(), method_id::channel_open_ok);
  }

 private:
  int fd_;
  std::string input_;
  bool reset_ = false;
};

/// Remembers on which shards log-ins came; all wrong.
struct RefusingAccess : AccessPort {
  std::mutex mutex;
  std::set<uint16_t> shards;
  void log_in(std::string, std::string, LoginOrigin from,
              std::function<void(std::unique_ptr<Login>)> done) override {
    {
      std::lock_guard lock(mutex);
      EXPECT_TRUE(from.loopback);
      shards.insert(Shard::current()->id().value);
    }
    done(nullptr);
  }
  Result<std::shared_ptr<VhostPort>, PeerError> open_vhost(const Login&,
                                                           std::string_view) override {
    return PeerError::connection(530, "none");
  }
  void connection_opened(const ConnectionInfo&) override {}
  void connection_closed(ConnectionId) override {}
};

class Net : public ::testing::Test {
 protected:
  void start(size_t shard_count, AccessPort* other_access = nullptr) {
    open(shard_count, other_access);
    if (listener) listener->start();
  }
  void open(size_t shard_count, AccessPort* other_access = nullptr) {
    for (size_t i = 0; i < shard_count; ++i) {
      shards.push_back(std::make_unique<Shard>(ShardId(static_cast<uint16_t>(i)), clock));
      homes.push_back(
          std::make_unique<QueueShard>(*shards.back(), *reinterpret_cast<Store*>(&dummy)));
    }
    access = std::make_unique<FakeAccess>(*homes[0]);
    access->vhost->add("q");
    std::vector<QueueShard*> raw;
    for (auto& home : homes) raw.push_back(home.get());
    auto opened = AmqpListener::open(raw, other_access ? *other_access : *access, list, settings,
                                     {{"127.0.0.1", 0}});
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    listener = std::move(*opened);
    port = listener->ports().at(0);
    for (auto& shard : shards) threads.emplace_back([&shard] { shard->run(); });
  }
  ~Net() override {
    if (!listener) return;
    listener->stop();
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    listener->abort_all([&] {
      std::lock_guard lock(mutex);
      done = true;
      changed.notify_one();
    });
    {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(
          changed.wait_for(lock, std::chrono::milliseconds(kDeadlineMs), [&] { return done; }));
    }
    EXPECT_EQ(listener->open_links(), 0u);
    for (auto& shard : shards) shard->stop();
    for (auto& thread : threads) thread.join();
    listener.reset();
  }
  /// Runs on the first shard and waits for it.
  void on_shard(std::function<void()> call) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    shards[0]->post([&] {
      call();
      std::lock_guard lock(mutex);
      done = true;
      changed.notify_one();
    });
    std::unique_lock lock(mutex);
    ASSERT_TRUE(
        changed.wait_for(lock, std::chrono::milliseconds(kDeadlineMs), [&] { return done; }));
  }
  /// Asks on the shard until it holds; each round trip lets the shard run a turn.
  bool eventually(std::function<bool()> holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDeadlineMs);
    bool ok = false;
    while (!ok && std::chrono::steady_clock::now() < end) {
      on_shard([&] { ok = holds(); });
      if (!ok) std::this_thread::yield();
    }
    return ok;
  }
  QueueActor& queue() { return fake(*access->vhost->queues.at("q")); }

  SystemClock clock;
  SessionSettings settings;
  char dummy = 0;
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<std::unique_ptr<QueueShard>> homes;
  std::unique_ptr<FakeAccess> access;
  ConnectionList list;
  std::unique_ptr<AmqpListener> listener;
  uint16_t port = 0;
  std::vector<std::thread> threads;
};

std::string publish_frames(std::string_view key, std::string_view body,
                           uint32_t frame_max = 131072) {
  TextSink sink;
  append_method(sink, 1, method::BasicPublish{"", key});
  append_content(sink, 1, as_bytes(PropertiesBuilder{}.build(body.size())), as_bytes(body),
                 frame_max);
  return sink.text;
}

/// Looks once a turn, in every turn.
struct EachTurn final : TurnHook {
  EachTurn(Shard& s, std::function<void()> c) : shard(s), call(std::move(c)) {}
  void on_turn_end() override {
    call();
    shard.post([this] {
      if (!ended) shard.at_turn_end(TurnStage::storage, *this);
    });
  }
  Shard& shard;
  std::function<void()> call;
  bool ended = false;
};

TEST_F(Net, ATurnTakesOneBiteOfAPublisherThatKnowsNoPause) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  constexpr size_t kCount = 40'000;
  const std::string one = publish_frames("q", "sixteen bytes ok");
  std::string many;
  for (size_t i = 0; i < kCount; ++i) many += one;
  size_t seen = 0, most = 0;
  EachTurn each_turn(*shards[0], [&] {
    const size_t now = queue().published.size();
    most = std::max(most, now - seen);
    seen = now;
  });
  on_shard([&] { shards[0]->at_turn_end(TurnStage::storage, each_turn); });
  client.send(many);
  EXPECT_TRUE(eventually([&] { return queue().published.size() == kCount; }));
  on_shard([&] { each_turn.ended = true; });
  on_shard([] {});
  EXPECT_GT(most, 0u);
  EXPECT_LE(most * one.size(), (64u << 10) + one.size());
}

TEST_F(Net, AClientOpensPublishesAndCloses) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  std::string body(3'000'000, 'x');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 >> 3);
  client.send(publish_frames("q", body));
  client.send(publish_frames("q", "small"));
  client.say(0, method::ConnectionClose{200, "bye", 0, 0});
  EXPECT_EQ(client.next().id(), method_id::connection_close_ok);
  EXPECT_TRUE(client.quiet_for(100)) << "the end of the stream before the client's";
  client.end_stream();
  EXPECT_FALSE(client.receive()) << "the end of the stream";
  EXPECT_FALSE(client.was_reset());
  on_shard([&] {
    ASSERT_EQ(queue().published.size(), 2u);
    EXPECT_TRUE(queue().published[0].body == body);
    EXPECT_EQ(queue().published[1].body, "small");
    EXPECT_EQ(access->opened.at(0).peer_host, "127.0.0.1");
    EXPECT_EQ(access->opened.at(0).local_host, "127.0.0.1");
    EXPECT_EQ(access->opened.at(0).local_port, port);
  });
  client.close();
  EXPECT_TRUE(
      eventually([&] { return listener->open_links() == 0 && access->closed.size() == 1; }));
}

TEST_F(Net, AClientThatSaidGoodbyeAndStaysIsLeft) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  client.say(0, method::ConnectionClose{200, "bye", 0, 0});
  EXPECT_EQ(client.next().id(), method_id::connection_close_ok);
  EXPECT_FALSE(client.receive()) << "the end of the stream, by the broker's own timer";
  EXPECT_TRUE(eventually([&] { return listener->open_links() == 0; }));
}

TEST_F(Net, TheHeaderReachesWhoSpeaksSomethingElse) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.rest(), kProtocolHeader);
  EXPECT_FALSE(client.was_reset());
}

TEST_F(Net, AnEndOfStreamEndsTheConnection) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  EXPECT_EQ(listener->open_links(), 1u);
  client.close();
  EXPECT_TRUE(eventually([&] { return access->closed.size() == 1; }));
  EXPECT_EQ(listener->open_links(), 0u);
  EXPECT_EQ(list.size(), 0u);
}

TEST_F(Net, SocketsGoToTheShardsInTurn) {
  RefusingAccess refusing;
  start(3, &refusing);
  for (int i = 0; i < 3; ++i) {
    Client client;
    ASSERT_TRUE(client.connect(port));
    client.open("wrong");
    client.rest();
  }
  std::lock_guard lock(refusing.mutex);
  EXPECT_EQ(refusing.shards, (std::set<uint16_t>{0, 1, 2}));
}

TEST_F(Net, WhatWaitedForAnAnswerIsTakenWhenItCame) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  on_shard([&] { access->vhost->hold_answers = true; });
  client.say(1, method::QueueDeclare{"r"});
  client.send(publish_frames("q", std::string(600'000, 'b')));
  EXPECT_TRUE(eventually([&] { return !access->vhost->held.empty(); }));
  on_shard([&] {
    EXPECT_TRUE(queue().published.empty());
    access->vhost->hold_answers = false;
    access->vhost->release();
  });
  EXPECT_EQ(client.next().id(), method_id::queue_declare_ok);
  EXPECT_TRUE(eventually([&] { return queue().published.size() == 1; }));
}

TEST_F(Net, AReaderThatStallsGetsEverythingOnceItReads) {
  settings.outbound_high_bytes = 1 << 20;
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  client.say(1, method::BasicConsume{"q", "t", false, true});
  EXPECT_EQ(client.next().id(), method_id::basic_consume_ok);
  const std::string body(100'000, 'x');
  constexpr int kCount = 200;
  for (int i = 0; i < kCount; ++i) on_shard([&] { queue().deliver(0, {body}); });
  on_shard([&] { EXPECT_TRUE(!queue().paused.empty() && queue().paused.back().second); });
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(client.next().id(), method_id::basic_deliver) << i;
    client.next();
    ASSERT_EQ(client.next().payload.size(), body.size());
  }
  EXPECT_TRUE(eventually([&] {
    uint64_t acked = 0;
    for (const auto& s : queue().settled) acked += s.run.run.count;
    return acked == kCount && !queue().paused.back().second;
  }));
}

TEST_F(Net, APortInUseIsKnownAtOnceAndNamed) {
  start(1);
  std::string failed;
  auto second =
      AmqpListener::open({homes[0].get()}, *access, list, settings, {{"127.0.0.1", port}}, &failed);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error(), boost::system::errc::address_in_use);
  EXPECT_EQ(failed, "127.0.0.1:" + std::to_string(port));
  auto bad =
      AmqpListener::open({homes[0].get()}, *access, list, settings, {{"no address", 0}}, &failed);
  EXPECT_FALSE(bad.has_value());
}

TEST_F(Net, AfterStopNobodyComesInButWhoIsInStays) {
  start(1);
  Client client;
  ASSERT_TRUE(client.connect(port));
  client.open();
  listener->stop();
  on_shard([] {});
  Client late;
  EXPECT_FALSE(late.connect(port));
  client.say(1, method::BasicQos{});
  EXPECT_EQ(client.next().id(), method_id::basic_qos_ok);
}

TEST_F(Net, WhoComesBeforeTheStartWaits) {
  open(1);
  Client early;
  ASSERT_TRUE(early.connect(port));
  on_shard([] {});
  EXPECT_EQ(listener->open_links(), 0u);
  listener->start();
  early.open();
  EXPECT_EQ(listener->open_links(), 1u);
}

TEST_F(Net, AStopBeforeTheStartHolds) {
  open(1);
  listener->stop();
  listener->start();
  on_shard([] {});
  Client late;
  EXPECT_FALSE(late.connect(port));
}

TEST_F(Net, OutOfDescriptorsItWaitsAndTriesAgain) {
  start(1);
  Client client;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // The lowest free number is what the limit must not exceed.
  const int lowest_free = ::dup(0);
  ASSERT_GE(lowest_free, 0);
  ::close(lowest_free);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const bool connected = client.connect(port);
  client.send(kProtocolHeader);
  on_shard([] {});
  on_shard([&] { EXPECT_EQ(listener->open_links(), 0u); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(connected);
  EXPECT_EQ(client.next().id(), method_id::connection_start);
}

}  // namespace
}  // namespace tarry::testing
