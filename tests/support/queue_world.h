#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/due_index.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry::test {

/// A directory that is gone after the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tarry-queue-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// The machine's files, with as little room as a test wants.
class ScarceFiles final : public FileSystem {
 public:
  std::atomic<bool> full{false};
  Result<std::unique_ptr<File>> open(const std::string& path, Open how) override {
    return real_.open(path, how);
  }
  FileError unlink(const std::string& path) override { return real_.unlink(path); }
  FileError rename(const std::string& from, const std::string& to) override {
    return real_.rename(from, to);
  }
  FileError make_directory(const std::string& path) override { return real_.make_directory(path); }
  FileError remove_directory(const std::string& path) override {
    return real_.remove_directory(path);
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    return real_.list(path);
  }
  FileError sync_directory(const std::string& path) override { return real_.sync_directory(path); }
  Result<uint64_t> free_bytes(const std::string& path) override {
    if (full) return uint64_t{0};
    return real_.free_bytes(path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return real_.lock(path);
  }

 private:
  FileSystem& real_ = posix_file_system();
};

/// A delivery with its bytes copied out.
struct Got {
  ConsumerId consumer;
  std::string exchange, key, header, body;
  Position position;
  uint8_t lane = 0;
  uint32_t counter = 0;
  bool redelivered = false, show_counter = false;
  uint64_t published_ms = 0;
  std::string last_error = {};

  SettleRun run() const { return {{position, 1}, lane, counter, consumer, body.size()}; }
  FieldTable headers() const {
    auto view = PropertiesView::parse(as_bytes(header));
    if (!view || view->headers.empty()) return {};
    return *FieldTable::decode(view->headers);
  }
};

inline Got copy_of(ConsumerId consumer, const Delivery& d) {
  Got got;
  got.consumer = consumer;
  const std::string_view route = as_text(d.record.route);
  const auto length = static_cast<unsigned char>(route[0]);
  got.exchange = route.substr(1, length);
  got.key = route.substr(2 + length);
  got.header = as_text(d.record.header);
  got.body = as_text(d.record.body);
  got.position = d.position;
  got.lane = d.lane;
  got.counter = d.counter;
  got.redelivered = d.redelivered;
  got.show_counter = d.show_counter;
  got.published_ms = d.record.published_ms;
  got.last_error = d.last_error;
  return got;
}

/// Remembers what a connection would be told.
struct RecordingSink final : DeliverySink {
  struct Reply {
    uint64_t token;
    std::optional<PeerError> error;
    uint64_t messages, consumers;
    std::optional<Got> got;
  };
  struct Returned {
    ConsumerId consumer;
    uint32_t count;
  };
  void on_deliver(ConsumerId consumer, std::span<const Delivery> batch) override {
    batches.push_back(batch.size());
    for (const Delivery& d : batch) deliveries.push_back(copy_of(consumer, d));
    if (after_deliver) after_deliver(consumer);
  }
  void on_confirm(std::span<const ConfirmRange> ranges) override {
    confirms.insert(confirms.end(), ranges.begin(), ranges.end());
  }
  void on_reply(uint64_t token, const QueueReply& reply) override {
    replies.push_back({token, reply.error, reply.message_count, reply.consumer_count, {}});
    if (reply.got) replies.back().got = copy_of(ConsumerId{}, *reply.got);
  }
  void on_cancelled(ConsumerId consumer) override { cancelled.push_back(consumer); }
  void on_credit_wanted(ConsumerId consumer) override { wanted.push_back(consumer); }
  void on_credit_returned(ConsumerId consumer, uint32_t count) override {
    returned.push_back({consumer, count});
  }
  void on_room() override {
    if (on_room_call) on_room_call();
  }

  /// The deliveries since the last call.
  std::vector<Got> take() { return std::exchange(deliveries, {}); }
  std::vector<std::string> bodies() {
    std::vector<std::string> out;
    for (Got& got : take()) out.push_back(got.body);
    return out;
  }
  std::vector<Got> deliveries;
  std::vector<size_t> batches;
  std::vector<ConfirmRange> confirms;
  std::vector<Reply> replies;
  std::vector<ConsumerId> cancelled, wanted;
  std::vector<Returned> returned;
  std::function<void(ConsumerId)> after_deliver;
  std::function<void()> on_room_call;
};

/// A dead-letter router that keeps the letters and answers what it is told to.
struct RecordingLetters final : DeadLetterSink {
  struct Letter {
    QueueHandle* source;
    uint64_t token;
    DeathReason reason;
    std::string exchange, header, body;
    std::vector<std::string> routing_keys, cycle_queues;
    uint8_t hops, priority;
    bool persistent, has_delivery_count;
    Origin origin;
    std::vector<QueueId> already_in;
    std::string shown_route;
    uint32_t counter = 0;
    FieldTable headers() const {
      auto view = PropertiesView::parse(as_bytes(header));
      return view && !view->headers.empty() ? *FieldTable::decode(view->headers) : FieldTable{};
    }
  };
  explicit RecordingLetters(QueueShard& queues) : queues_(queues) {}
  void route(const DeadLetter& l) override {
    letters.push_back({l.source, l.token, l.reason, std::string(l.exchange),
                       std::string(as_text(as_bytes(l.header))), std::string(as_text(l.body)),
                       l.routing_keys, l.cycle_queues, l.hops, l.priority, l.persistent,
                       l.has_delivery_count, l.origin, l.already_in,
                       std::string(as_text(l.shown_route)), l.counter});
    if (answer) queues_.dead_letter_done(*l.source, l.token, *answer);
  }
  /// Answers by hand, and forgets, all that came: the first `room` are stored, which is told last,
  /// since it has to be durable. On the shard.
  void answer_all(size_t room) {
    const std::vector<Letter> came = std::exchange(letters, {});
    for (size_t i = std::min(room, came.size()); i < came.size(); ++i)
      queues_.dead_letter_done(*came[i].source, came[i].token, DeadLetterResult::refused);
    for (size_t i = 0; i < std::min(room, came.size()); ++i)
      queues_.dead_letter_done(*came[i].source, came[i].token, DeadLetterResult::stored);
  }
  void source_dropped(QueueHandle&, uint64_t token) override { dropped.push_back(token); }
  void queue_removed(QueueHandle& queue) override { removed.push_back(queue.id); }

  std::optional<DeadLetterResult> answer = DeadLetterResult::stored;  // none: later, by hand
  std::vector<Letter> letters;
  std::vector<uint64_t> dropped;
  std::vector<QueueId> removed;

 private:
  QueueShard& queues_;
};

/// One shard with its queue room over a real store in a temporary directory; the clock stands still
/// until moved.
class QueueWorld : public ::testing::Test {
 protected:
  static constexpr ConnectionId kConnection{7};

  QueueWorld() { open(); }
  ~QueueWorld() override { shut(); }

  void open() {
    StoreOptions options;
    options.data_dir = directory_.path;
    options.disk_free_min_bytes = 1;
    // Here processes end, power does not: without thousands of syncs, which may take minutes.
    options.durability = Durability::os;
    options.parked_listed_max = 0;  // as with many: the fault tests and the simulation do both
    auto opened = Store::open(options, files_);
    if (!opened) std::abort();
    store_ = std::move(*opened);
    if (due_budget_ > 0) store_->due().set_memory_budget(due_budget_);
    shard_ = std::make_unique<Shard>(ShardId(0), clock_);
    queues_ = std::make_unique<QueueShard>(*shard_, *store_);
    letters_ = std::make_unique<RecordingLetters>(*queues_);
    queues_->set_dead_letter_sink(*letters_);
    queues_->add_sink(kConnection, sink_);
  }
  void shut() {
    queue_.reset();
    queues_.reset();
    letters_.reset();
    shard_.reset();
    store_.reset();
  }
  /// A clean stop and a start with what is on disk.
  void restart() {
    bool flushed = false;
    on_shard([&] { queues_->flush([&] { flushed = true; }); });
    wait_until([&] { return flushed; });
    const QueueId id = queue_->id;
    const QueueIdentity identity = queue_->identity;
    shut();
    open();
    origins_.clear();
    queue_ = queues_->recover(id, identity, settings_, origins_);
    turns();
  }

  /// kill -9 and a start: with what is on disk at this moment, whatever was in memory.
  void crash() {
    const std::string kept = directory_.path + "-kept";
    std::filesystem::copy(directory_.path, kept, std::filesystem::copy_options::recursive);
    const QueueId id = queue_->id;
    const QueueIdentity identity = queue_->identity;
    shut();
    std::filesystem::remove_all(directory_.path);
    std::filesystem::rename(kept, directory_.path);
    open();
    origins_.clear();
    queue_ = queues_->recover(id, identity, settings_, origins_);
    turns();
  }

  /// Runs `work` on the shard, and what follows from it.
  void on_shard(std::function<void()> work) {
    shard_->post([&] { work(); });
    turns();
  }
  /// Turns until nothing happens and everything is durable.
  void turns() {
    // What the first barrier brings about may owe another one.
    for (int round = 0; round < 3; ++round) {
      bool durable = false;
      shard_->post([&] { queues_->store().when_durable([&] { durable = true; }); });
      wait_until([&] { return durable; });
      bool read = false;  // what was being read from disk
      store_->on_store_thread([&] { shard_->post([&] { read = true; }); });
      wait_until([&] { return read; });
      for (int quiet = 0; quiet < 3;) quiet = shard_->run_turn_for_test() ? 0 : quiet + 1;
    }
  }
  void wait_until(std::function<bool()> reached) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!reached()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nothing happened";
      if (!shard_->run_turn_for_test()) std::this_thread::yield();
    }
  }
  void advance(int64_t ms) {
    clock_.advance_ms(ms);
    turns();
  }

  Requester here() { return {queues_.get(), kConnection}; }

  /// Makes the queue under test with `identity_` and `settings_`.
  void declare() {
    on_shard([&] { queue_ = queues_->create(QueueId(++next_id_), identity_, settings_); });
  }
  void retry_queue(uint64_t min_ms, std::optional<uint64_t> multiplier = 1, uint64_t limit = 20) {
    identity_.retry_enabled = true;
    settings_.retry.min_ms = min_ms;
    settings_.retry.multiplier = multiplier;
    settings_.delivery_limit = limit;
  }
  void dead_letter_to(std::string key) {
    settings_.dead_letter_exchange = "";
    settings_.dead_letter_routing_key = std::move(key);
  }

  struct Message {
    std::string body{};
    std::optional<std::string> expiration{};
    FieldTable headers{};
    bool persistent = true;
    uint8_t priority = 0;
    uint64_t publish_number = 0;
    std::string exchange = "ex", key = "key";
    uint8_t hops = 0;
    std::optional<uint64_t> timestamp_s{};
  };
  /// To be called on the shard.
  void publish_here(const Message& m) {
    PropertiesBuilder builder;
    if (!m.headers.empty()) builder.headers = m.headers;
    builder.expiration = m.expiration;
    builder.timestamp = m.timestamp_s;
    if (m.persistent) builder.delivery_mode = 2;
    const std::string header = builder.build(m.body.size());
    std::string route;
    route.push_back(static_cast<char>(m.exchange.size()));
    route += m.exchange;
    route.push_back(static_cast<char>(m.key.size()));
    route += m.key;
    PublishRequest request;
    request.route = as_bytes(route);
    request.header = as_bytes(header);
    request.body = as_bytes(m.body);
    request.persistent = m.persistent;
    request.priority = m.priority;
    request.hops = m.hops;
    if (m.expiration) request.ttl_ms = static_cast<uint32_t>(std::stoul(*m.expiration));
    request.has_delivery_count = m.headers.find("x-delivery-count") != nullptr;
    request.publish_number = m.publish_number;
    request.channel = 1;
    request.channel_serial = 1;
    request.from = here();
    queue_->publish(request);
  }
  void publish(const Message& m) {
    on_shard([&] { publish_here(m); });
  }
  void publish(std::initializer_list<const char*> bodies) {
    on_shard([&] {
      for (const char* body : bodies) publish_here({.body = body});
    });
  }

  ConsumeRequest consumer(uint64_t id, uint32_t prefetch = 0) {
    ConsumeRequest request;
    request.consumer = ConsumerId(id);
    request.tag = "c" + std::to_string(id);
    request.from = here();
    request.channel = 1;
    request.prefetch = prefetch;
    return request;
  }
  void consume(ConsumeRequest request) {
    on_shard([&] { queue_->consume(request, ++token_); });
  }
  void consume(uint64_t id, uint32_t prefetch = 0) { consume(consumer(id, prefetch)); }
  void settle(Outcome outcome, std::vector<Got> which) {
    on_shard([&] {
      for (const Got& got : which) {
        const SettleRun run = got.run();
        queue_->settle(outcome, std::span(&run, 1));
      }
    });
  }
  /// A publish to amq.retry about this delivery.
  void say(const Got& got, OwnWord word) {
    word.delivery = got.run();
    if (word.publish_number != 0) {
      word.channel = word.channel_serial = 1;
      word.from = here();
    }
    on_shard([&] { queue_->settle_by_word(word); });
  }
  RecordingSink::Reply last_reply() {
    return sink_.replies.empty() ? RecordingSink::Reply{} : sink_.replies.back();
  }
  std::optional<Got> get() {
    on_shard([&] { queue_->get(false, here(), ++token_); });
    wait_until([&] { return last_reply().token == token_; });  // it may be read from disk
    turns();
    return last_reply().got;
  }
  std::string get_body() {
    auto got = get();
    return got ? got->body : "-";
  }
  RecordingSink::Reply stat(bool is_use = false) {
    on_shard([&] { queue_->stat(is_use, here(), ++token_); });
    return last_reply();
  }
  uint64_t purge() {
    on_shard([&] { queue_->purge(here(), ++token_); });
    return last_reply().messages;
  }
  RecordingSink::Reply remove(bool if_unused = false, bool if_empty = false) {
    on_shard([&] { queue_->remove(if_unused, if_empty, here(), ++token_); });
    return last_reply();
  }
  uint64_t figure(std::atomic<uint64_t> QueueFigures::*which) {
    return (queue_->figures().*which).load();
  }
  uint64_t ready() { return figure(&QueueFigures::ready); }
  uint64_t delayed() { return figure(&QueueFigures::delayed); }

  TemporaryDirectory directory_;
  ScarceFiles files_;
  ManualClock clock_;
  RecordingSink sink_;
  size_t due_budget_ = 0;  // from the next open() on
  std::unique_ptr<Store> store_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<QueueShard> queues_;
  std::unique_ptr<RecordingLetters> letters_;
  std::shared_ptr<QueueHandle> queue_;
  QueueIdentity identity_{.vhost = "/", .name = "q"};
  QueueSettings settings_;
  std::vector<std::pair<Origin, QueueId>> origins_;
  uint64_t token_ = 100, next_id_ = 0;
};

}  // namespace tarry::test
