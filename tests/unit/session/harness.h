#pragma once

// A client and a connection joined by a pipe, over a fake vhost and fake queues; time stands still
// unless moved.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tarrymq/amqp/frame_decoder.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/amqp/methods.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"
#include "tarrymq/session/connection_list.h"
#include "unit/session/fake_queues.h"

namespace tarry::testing {

struct TextSink {
  std::string text;
  std::byte* append(size_t size) {
    const size_t at = text.size();
    text.resize(at + size);
    return reinterpret_cast<std::byte*>(text.data()) + at;
  }
};

struct FakeVhost : VhostPort {
  explicit FakeVhost(QueueShard& h) : home(h) {}
  QueueShard& home;
  std::string vhost_name = "/";
  std::map<std::string, std::shared_ptr<QueueHandle>, std::less<>> queues;
  std::map<std::string, std::vector<std::string>, std::less<>> exchanges;  // fanouts: their queues
  uint64_t version = 1;
  int routes_asked = 0;
  bool hold_answers = false;
  std::vector<std::function<void()>> held;
  bool hold_disk = false;  // what changes takes effect, and is not durable until sync()
  std::vector<Task> disk_waiters;
  std::vector<std::string> calls;
  std::vector<BindingSpec> bindings;
  std::vector<ConnectionId> closed;

  void answer(std::function<void()> call) {
    if (hold_answers) {
      held.push_back(std::move(call));
    } else {
      call();
    }
  }
  void release() {
    auto now = std::move(held);
    held.clear();
    for (auto& call : now) call();
  }
  Stored stored() const { return hold_disk ? Stored::not_yet : Stored::yes; }
  void sync() {
    auto now = std::move(disk_waiters);
    disk_waiters.clear();
    for (Task& waiter : now) waiter();
  }
  void when_stored(Task then) override {
    if (!hold_disk) return then();
    disk_waiters.push_back(std::move(then));
  }
  std::shared_ptr<QueueHandle> add(const std::string& name) {
    ++version;
    return queues[name] = make_fake_queue(home, name);
  }

  const std::string& name() const override { return vhost_name; }
  void declare_exchange(const Actor&, ExchangeDeclare d, VhostAnswer<void> done) override {
    calls.push_back("exchange.declare " + d.name);
    answer([done, d, this]() {
      if (d.passive && !exchanges.contains(d.name)) {
        return done(PeerError::not_found("no exchange '" + d.name + "' in vhost '/'"));
      }
      exchanges[d.name];
      done(boost::system::in_place_value, stored());
    });
  }
  void delete_exchange(const Actor&, std::string n, bool, VhostAnswer<void> done) override {
    calls.push_back("exchange.delete " + n);
    exchanges.erase(n);
    ++version;
    answer([done, this] { done(boost::system::in_place_value, stored()); });
  }
  void declare_queue(const Actor&, QueueDeclare d, VhostAnswer<QueueDeclared> done) override {
    calls.push_back("queue.declare " + d.name);
    answer([done, d, this]() mutable {
      if (d.passive && !queues.contains(d.name)) {
        return done(PeerError::not_found("no queue '" + d.name + "' in vhost '/'"));
      }
      if (d.name.empty()) d.name = "amq.gen-1";
      if (!queues.contains(d.name)) add(d.name);
      done(QueueDeclared{d.name, 3, 2}, d.passive ? Stored::yes : stored());
    });
  }
  void delete_queue(const Actor&, std::string n, bool, bool, VhostAnswer<uint64_t> done) override {
    calls.push_back("queue.delete " + n);
    queues.erase(n);
    answer([done, this] { done({boost::system::in_place_value, uint64_t{5}}, stored()); });
  }
  void purge_queue(const Actor&, std::string n, VhostAnswer<uint64_t> done) override {
    calls.push_back("queue.purge " + n);
    answer([done] { done({boost::system::in_place_value, uint64_t{7}}); });
  }
  void bind(const Actor&, BindingSpec b, VhostAnswer<void> done) override {
    bindings.push_back(std::move(b));
    answer([done, this] { done(boost::system::in_place_value, stored()); });
  }
  void unbind(const Actor&, BindingSpec b, VhostAnswer<void> done) override {
    bindings.push_back(std::move(b));
    answer([done, this] { done(boost::system::in_place_value, stored()); });
  }
  Result<std::shared_ptr<QueueHandle>, PeerError> open_queue(const Actor&,
                                                             std::string_view n) override {
    if (auto it = queues.find(n); it != queues.end()) return it->second;
    return PeerError::not_found("no queue '" + std::string(n) + "' in vhost '/'");
  }
  std::shared_ptr<QueueHandle> find_queue(std::string_view n) override {
    auto it = queues.find(n);
    return it == queues.end() ? nullptr : it->second;
  }
  uint64_t topology_version() const override { return version; }
  Result<Routed, PeerError> route(const Login&, std::string_view exchange, std::string_view key,
                                  const PropertiesView* view,
                                  std::vector<std::shared_ptr<QueueHandle>>& targets) override {
    ++routes_asked;
    if (exchange.empty()) {
      if (auto q = find_queue(key)) targets.push_back(q);
      return Routed{!(view && (view->has_cc || view->has_bcc))};
    }
    auto it = exchanges.find(exchange);
    if (it == exchanges.end())
      return PeerError::not_found("no exchange '" + std::string(exchange) + "' in vhost '/'");
    for (const auto& q : it->second) targets.push_back(queues.at(q));
    return Routed{true};
  }
  void connection_closed(ConnectionId id) override { closed.push_back(id); }
};

struct FakeAccess : AccessPort {
  explicit FakeAccess(QueueShard& home) : vhost(std::make_shared<FakeVhost>(home)) {}
  std::shared_ptr<FakeVhost> vhost;
  std::vector<ConnectionInfo> opened;
  std::vector<ConnectionId> closed;
  std::function<void(std::unique_ptr<Login>)> held;
  bool hold = false;

  void log_in(std::string user, std::string password, LoginOrigin,
              std::function<void(std::unique_ptr<Login>)> done) override {
    auto login =
        user == "guest" && password == "guest" ? std::make_unique<Login>(Login{user}) : nullptr;
    if (hold) {
      held = std::move(done);
    } else {
      done(std::move(login));
    }
  }
  Result<std::shared_ptr<VhostPort>, PeerError> open_vhost(const Login&,
                                                           std::string_view name) override {
    if (name != "/") return PeerError::connection(530, "vhost " + std::string(name) + " not found");
    return std::shared_ptr<VhostPort>(vhost);
  }
  void connection_opened(const ConnectionInfo& info) override { opened.push_back(info); }
  void connection_closed(ConnectionId id) override { closed.push_back(id); }
};

struct Pipe : OutboundPort {
  OutboundBuffer buffer;
  bool reading = true, flush_wanted = false, closing = false, aborted = false;
  OutboundBuffer& outbound() override { return buffer; }
  void request_flush() override { flush_wanted = true; }
  void set_reading(bool on) override { reading = on; }
  void close_after_flush() override { closing = true; }
  void abort() override { aborted = true; }
};

/// A frame as the client got it.
struct Got {
  FrameType type{};
  uint16_t channel = 0;
  std::string payload;
  uint32_t id() const { return type == FrameType::method ? peek_method_id(as_bytes(payload)) : 0; }
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest()
      : shard(ShardId(0), clock), home(shard, *reinterpret_cast<Store*>(&dummy_)), access(home) {}
  ~SessionTest() override {
    on_shard([&] { connection.reset(); });
  }

  void on_shard(std::function<void()> call) {
    bool done = false;
    shard.post([&] {
      call();
      done = true;
    });
    while (!done) shard.run_turn_for_test();
    for (int i = 0; i < 20 && shard.run_turn_for_test(); ++i) {
    }
  }
  void connect() {
    on_shard([&] {
      connection = Connection::create(home, access, settings,
                                      {"127.0.0.1", 40000, 5672, true, nullptr}, pipe, &list);
    });
  }
  /// Feeds what the client has written, as the link would, and takes what came out.
  void pump() {
    for (int round = 0; round < 50; ++round) {
      bool any = false;
      on_shard([&] {
        if (pipe.closing && pipe.buffer.unsent_bytes() == 0) return;
        if (!input.empty() && pipe.reading && !pipe.closing) {
          size_t size =
              one_byte_at_a_time ? std::min<size_t>(input.size(), offered_ + 1) : input.size();
          size_t used = connection->on_bytes(as_bytes(std::string_view(input).substr(0, size)));
          offered_ = used > 0 ? 0 : size;
          input.erase(0, used);
          any = used > 0 || size < input.size();
        }
      });
      on_shard([&] {
        if (stuck) return;
        ByteSpan bytes = pipe.buffer.unsent();
        if (bytes.empty()) return;
        output += as_text(bytes);
        pipe.buffer.consume(bytes.size());
        connection->on_sent();
        any = true;
      });
      if (!any) return;
      if (one_byte_at_a_time && !input.empty()) round = 0;
    }
  }

  // -- What the client says
  void raw(std::string_view bytes) { input += bytes; }
  template <class M>
  void say(uint16_t channel, const M& m) {
    TextSink sink;
    append_method(sink, channel, m);
    input += sink.text;
  }
  void frame(FrameType type, uint16_t channel, std::string_view payload) {
    TextSink sink;
    detail::put_frame(sink.append(payload.size() + kFrameOverheadBytes), type, channel,
                      as_bytes(payload));
    input += sink.text;
  }
  void publish(uint16_t channel, std::string_view exchange, std::string_view key,
               std::string_view body, bool mandatory = false,
               const PropertiesBuilder& properties = {}) {
    say(channel, method::BasicPublish{exchange, key, mandatory, false});
    frame(FrameType::header, channel, properties.build(body.size()));
    if (!body.empty()) frame(FrameType::body, channel, body);
  }
  static std::string client_properties(std::string_view product = {}) {
    FieldTable capabilities;
    for (const char* name :
         {"authentication_failure_close", "consumer_cancel_notify", "connection.blocked"}) {
      capabilities.set(name, FieldValue::boolean(true));
    }
    FieldTable properties;
    if (!product.empty()) properties.set("product", FieldValue::text(std::string(product)));
    properties.set("capabilities", FieldValue::table(capabilities));
    return properties.encode();
  }
  void say_start_ok(std::string_view response = std::string_view("\0guest\0guest", 12),
                    std::string_view mechanism = "PLAIN") {
    const std::string properties = client_properties(client_product);
    say(0, method::ConnectionStartOk{as_bytes(properties), mechanism, response, "en_US"});
  }
  void open_connection(uint32_t frame_max = 0, uint16_t heartbeat = 0) {
    connect();
    raw(kProtocolHeader);
    say_start_ok();
    say(0, method::ConnectionTuneOk{0, frame_max, heartbeat});
    say(0, method::ConnectionOpen{"/"});
    pump();
    ASSERT_EQ(ids(), (std::vector<uint32_t>{method_id::connection_start, method_id::connection_tune,
                                            method_id::connection_open_ok}));
    got.clear();
  }
  void open_channel(uint16_t number = 1) {
    say(number, method::ChannelOpen{});
    expect(number, method_id::channel_open_ok);
  }

  // -- What the client heard
  /// Everything since the last take.
  std::vector<Got>& take() {
    pump();
    got.clear();
    return parse();
  }
  std::vector<Got>& parse() {
    while (true) {
      DecodedFrame f = decode_frame(as_bytes(output), UINT32_MAX);
      if (f.status != FrameStatus::frame) break;
      got.push_back({f.type, f.channel, std::string(as_text(f.payload))});
      output.erase(0, f.total_bytes);
    }
    return got;
  }
  std::vector<uint32_t> ids() {
    std::vector<uint32_t> out;
    for (auto& g : parse()) out.push_back(g.id());
    return out;
  }
  void expect(uint16_t channel, uint32_t id) {
    take();
    ASSERT_EQ(got.size(), 1u) << "wanted " << method_name(id)
                              << (got.empty() ? "" : ", first " + method_name(got[0].id()));
    EXPECT_EQ(method_name(got[0].id()), method_name(id));
    EXPECT_EQ(got[0].channel, channel);
  }
  void expect_nothing() {
    take();
    EXPECT_TRUE(got.empty()) << method_name(got[0].id());
  }
  template <class M>
  M as(const Got& g) {
    auto m = parse_method(as_bytes(g.payload));
    EXPECT_TRUE(m.has_value() && std::holds_alternative<M>(*m)) << method_name(g.id());
    return m && std::holds_alternative<M>(*m) ? std::get<M>(*m) : M{};
  }
  /// The next thing is a close of the connection or channel with this code; the text must hold
  /// `part`.
  void expect_connection_close(uint16_t code, std::string_view part, uint32_t method) {
    take();
    ASSERT_FALSE(got.empty()) << "wanted connection.close " << code;
    auto m = as<method::ConnectionClose>(got.back());
    EXPECT_EQ(m.reply_code, code);
    EXPECT_NE(m.reply_text.find(part), std::string_view::npos) << m.reply_text;
    EXPECT_EQ(m.reply_text.find(reply::name(code)), 0u) << m.reply_text;
    EXPECT_EQ(method_id::of(m.failing_class, m.failing_method), method);
  }
  void expect_channel_close(uint16_t channel, uint16_t code, std::string_view part,
                            uint32_t method) {
    take();
    ASSERT_FALSE(got.empty()) << "wanted channel.close " << code;
    EXPECT_EQ(got.back().channel, channel);
    auto m = as<method::ChannelClose>(got.back());
    EXPECT_EQ(m.reply_code, code);
    EXPECT_NE(m.reply_text.find(part), std::string_view::npos) << m.reply_text;
    EXPECT_EQ(m.reply_text.find(reply::name(code)), 0u) << m.reply_text;
    EXPECT_EQ(method_id::of(m.failing_class, m.failing_method), method);
    say(channel, method::ChannelCloseOk{});
    pump();
  }
  void advance_ms(int64_t ms) {
    clock.advance_ms(ms);
    on_shard([] {});
  }
  QueueActor& queue(const std::string& name = "q") { return fake(*access.vhost->queues.at(name)); }
  std::string consume(const std::string& name = "q", const std::string& tag = "t",
                      bool no_ack = false) {
    say(1, method::BasicConsume{name, tag, false, no_ack, false, false, {}});
    take();
    EXPECT_EQ(got.size(), 1u);
    return got.empty() ? "" : std::string(as<method::BasicConsumeOk>(got[0]).consumer_tag);
  }
  void deliver(size_t consumer, std::vector<std::string> bodies, const std::string& name = "q") {
    on_shard([&] { queue(name).deliver(consumer, bodies); });
  }

  ManualClock clock;
  Shard shard;
  QueueShard home;
  ConnectionList list;
  SessionSettings settings;
  FakeAccess access;
  Pipe pipe;
  std::unique_ptr<Connection> connection;
  std::string input, output;
  std::vector<Got> got;
  std::string client_product;  // what the client calls itself, if anything
  bool one_byte_at_a_time = false;
  bool stuck = false;  // the socket takes nothing

 private:
  size_t offered_ = 0;
  char dummy_ = 0;
};

}  // namespace tarry::testing
