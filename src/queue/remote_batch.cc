#include "queue/remote_batch.h"

#include <algorithm>
#include <utility>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"

namespace tarry {
namespace {

constexpr size_t kBlockBytesMin = 4096, kBlockBytesMax = 256 * 1024;
constexpr size_t kBlocksKept = 2, kSpareMax = 4;
// What a shard may have on its way to others. With one more read it is as much as a queue gives a
// consumer in a pass, so that a consumer keeps pace with a publisher that knows no pause.
constexpr uint64_t kUntakenBytesMax = 128 * 1024;
constexpr uint64_t kPublishOverheadBytes = 64;
// How often a disk that is behind is looked at again, and how long a publisher waits for it: if it
// fails, the alarms decide, not this.
constexpr int64_t kDiskLookMs = 1, kDiskPatienceMs = 100;

}  // namespace

std::byte* Arena::allocate_slowly(size_t bytes) {
  // Blocks that were kept come first; one that is too small for this is passed over.
  while (in_use_ < blocks_.size() && blocks_[in_use_].capacity < bytes) ++in_use_;
  if (in_use_ == blocks_.size()) {
    const size_t last = blocks_.empty() ? 0 : blocks_.back().capacity;
    const size_t capacity = std::max(std::clamp(last * 2, kBlockBytesMin, kBlockBytesMax), bytes);
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(capacity), capacity});
  }
  block_ = blocks_[in_use_].bytes.get();
  capacity_ = blocks_[in_use_].capacity;
  ++in_use_;
  used_ = bytes;
  return block_;
}

void Arena::reset() {
  std::erase_if(blocks_, [](const Block& block) { return block.capacity > kBlockBytesMax; });
  if (blocks_.size() > 1) {
    // Of those that grew, the large ones are worth keeping.
    const size_t least = blocks_.back().capacity;
    std::erase_if(blocks_, [least](const Block& block) { return block.capacity < least; });
  }
  if (blocks_.size() > kBlocksKept) blocks_.resize(kBlocksKept);
  in_use_ = used_ = capacity_ = 0;
  block_ = nullptr;
}

/// What of a record lies together, as it does in its log, is copied in one piece.
RecordView Arena::copy(const RecordView& record) {
  RecordView copied = record;
  const std::byte* route_end = record.route.data() + record.route.size();
  const std::byte* header_end = record.header.data() + record.header.size();
  if (record.header.data() == route_end &&
      (record.body.empty() || record.body.data() == header_end)) {
    const size_t all = record.route.size() + record.header.size() + record.body.size();
    const ByteSpan whole = copy(ByteSpan(record.route.data(), all));
    copied.route = whole.first(record.route.size());
    copied.header = whole.subspan(record.route.size(), record.header.size());
    copied.body = whole.subspan(record.route.size() + record.header.size());
    return copied;
  }
  copied.route = copy(record.route);
  copied.header = copy(record.header);
  copied.body = copy(record.body);
  return copied;
}

std::span<const Delivery> Arena::copy_deep(std::span<const Delivery> batch) {
  std::span<Delivery> copied = copy(batch);
  for (Delivery& delivery : copied) {
    delivery.record = copy(delivery.record);
    if (!delivery.last_error.empty())
      delivery.last_error = as_text(copy(as_bytes(delivery.last_error)));
  }
  return copied;
}

QueueActor* RemoteBatch::keep(const std::shared_ptr<QueueActor>& actor) {
  if (kept_.empty() || kept_.back() != actor) kept_.push_back(actor);
  return actor.get();
}

uint64_t RemoteBatch::publish(const std::shared_ptr<QueueActor>& actor,
                              const PublishRequest& request) {
  static_assert(sizeof(Packed) % alignof(Origin) == 0);
  const size_t origin_bytes = request.origin ? sizeof(Origin) : 0;
  const size_t payload = request.route.size() + request.header.size() + request.body.size();
  const size_t bytes =
      (sizeof(Packed) + origin_bytes + payload + alignof(Packed) - 1) & ~(alignof(Packed) - 1);
  std::byte* at = arena_.allocate(bytes, alignof(Packed));
  auto* packed = new (at) Packed{
      .publish_number = request.publish_number,
      .body_bytes = request.body.size(),
      .header_bytes = static_cast<uint32_t>(request.header.size()),
      .ttl_ms = request.ttl_ms,
      .counter = request.counter,
      .channel_serial = request.channel_serial,
      .route_bytes = static_cast<uint16_t>(request.route.size()),
      .channel = request.channel,
      .priority = request.priority,
      .hops = request.hops,
      .persistent = request.persistent,
      .has_delivery_count = request.has_delivery_count,
      .has_origin = request.origin != nullptr,
  };
  std::byte* to = at + sizeof(Packed);
  if (request.origin) std::memcpy(to, static_cast<const void*>(request.origin), sizeof(Origin));
  to += origin_bytes;
  for (ByteSpan part : {request.route, request.header, request.body}) {
    if (part.empty()) continue;
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  auto* last = entries_.empty() ? nullptr : std::get_if<Publishes>(&entries_.back());
  if (last && last->actor == actor.get() && last->end == at && last->from == request.from) {
    last->end = at + bytes;
  } else {
    entries_.emplace_back(
        Publishes{keep(actor), request.from, reinterpret_cast<std::byte*>(packed), at + bytes});
  }
  const uint64_t weight = kPublishOverheadBytes + payload;
  published_bytes_ += weight;
  return weight;
}

void RemoteBatch::settle(const std::shared_ptr<QueueActor>& actor, Outcome outcome,
                         std::span<const SettleRun> runs) {
  entries_.emplace_back(Settle{keep(actor), outcome, arena_.copy(runs)});
}

void RemoteBatch::call(const std::shared_ptr<QueueActor>& actor, Task task) {
  keep(actor);
  entries_.emplace_back(std::move(task));
}

void RemoteBatch::deliver(const std::shared_ptr<QueueActor>& from, ConnectionId to,
                          ConsumerId consumer, std::span<const Delivery> batch, uint64_t bytes) {
  entries_.emplace_back(Deliver{keep(from), to, consumer, arena_.copy_deep(batch), bytes});
}

void RemoteBatch::confirm(ConnectionId to, std::span<const ConfirmRange> ranges) {
  entries_.emplace_back(Confirm{to, arena_.copy(ranges)});
}

void RemoteBatch::reply(const std::shared_ptr<QueueActor>& from, ConnectionId to, uint64_t token,
                        const QueueReply& reply) {
  auto copied = std::make_unique<QueueReply>(reply);
  if (reply.got) copied->got = arena_.copy_deep(std::span(reply.got, 1)).data();
  entries_.emplace_back(Reply{keep(from), to, token, std::move(copied)});
}

void RemoteBatch::note(ConnectionId to, Note what, ConsumerId consumer, uint32_t count) {
  entries_.emplace_back(Told{to, what, consumer, count});
}

void RemoteBatch::run() {
  for (auto& entry : entries_) {
    std::visit([this](auto& e) { run(e); }, entry);
  }
  if (from_ && published_bytes_ > 0) target_->impl().batches.to(*from_).taken(published_bytes_);
  entries_.clear();
  kept_.clear();
  arena_.reset();
  published_bytes_ = 0;
}

void RemoteBatch::run(Publishes& entry) {
  PublishRequest request;
  request.from = entry.from;
  for (const std::byte* at = entry.first; at != entry.end;) {
    const auto& packed = *reinterpret_cast<const Packed*>(at);
    const std::byte* part = at + sizeof(Packed);
    request.origin = packed.has_origin ? reinterpret_cast<const Origin*>(part) : nullptr;
    part += packed.has_origin ? sizeof(Origin) : 0;
    request.route = {part, packed.route_bytes};
    part += packed.route_bytes;
    request.header = {part, packed.header_bytes};
    part += packed.header_bytes;
    request.body = {part, packed.body_bytes};
    part += packed.body_bytes;
    request.persistent = packed.persistent;
    request.priority = packed.priority;
    request.hops = packed.hops;
    request.counter = packed.counter;
    request.ttl_ms = packed.ttl_ms;
    request.has_delivery_count = packed.has_delivery_count;
    request.publish_number = packed.publish_number;
    request.channel = packed.channel;
    request.channel_serial = packed.channel_serial;
    entry.actor->publish(request);
    const auto used = static_cast<size_t>(part - at);
    at += (used + alignof(Packed) - 1) & ~(alignof(Packed) - 1);
  }
}

void RemoteBatch::run(Settle& entry) { entry.actor->settle(entry.outcome, entry.runs); }

void RemoteBatch::run(Deliver& entry) {
  if (DeliverySink* sink = target_->find_sink(entry.to)) {
    sink->on_deliver(entry.consumer, entry.batch);
    // Behind what the sink had to say of it, a pause for example.
    target_->impl()
        .batches.to(entry.actor->home())
        .call(entry.actor->shared_from_this(),
              [actor = entry.actor, consumer = entry.consumer, bytes = entry.bytes] {
                actor->arrived(consumer, bytes);
              });
    return;
  }
  // The connection is gone, and these never reached its client.
  std::vector<SettleRun> runs;
  append_runs(runs, entry.consumer, entry.batch);
  target_->impl()
      .batches.to(entry.actor->home())
      .settle(entry.actor->shared_from_this(), Outcome::not_delivered, runs);
}

void RemoteBatch::run(Confirm& entry) {
  if (DeliverySink* sink = target_->find_sink(entry.to)) sink->on_confirm(entry.ranges);
}

void RemoteBatch::run(Reply& entry) {
  if (DeliverySink* sink = target_->find_sink(entry.to)) {
    sink->on_reply(entry.token, *entry.reply);
  } else if (entry.reply->got && entry.actor) {
    std::vector<SettleRun> runs;
    append_runs(runs, ConsumerId{}, std::span(entry.reply->got, 1));
    target_->impl()
        .batches.to(entry.actor->home())
        .settle(entry.actor->shared_from_this(), Outcome::not_delivered, runs);
  }
}

void RemoteBatch::run(Told& entry) {
  DeliverySink* sink = target_->find_sink(entry.to);
  if (!sink) return;
  switch (entry.what) {
    case Note::cancelled:
      return sink->on_cancelled(entry.consumer);
    case Note::credit_wanted:
      return sink->on_credit_wanted(entry.consumer);
    case Note::credit_returned:
      return sink->on_credit_returned(entry.consumer, entry.count);
  }
}

void RemoteBatch::run(Taken& entry) { target_->impl().batches.taken(entry.bytes); }

RemoteBatch& RemoteBatches::to(QueueShard& target) {
  for (auto& batch : open_) {
    if (&batch->target() == &target) return *batch;
  }
  shard_.at_turn_end(TurnStage::storage, *this);
  if (spare_.empty()) {
    open_.push_back(std::make_unique<RemoteBatch>(target, &home_));
  } else {
    open_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    open_.back()->begin_anew(target, &home_);
  }
  return *open_.back();
}

void RemoteBatches::on_turn_end() {
  for (auto& batch : open_) send_batch(std::move(batch));
  open_.clear();
}

void RemoteBatches::publish(QueueShard& target, const std::shared_ptr<QueueActor>& actor,
                            const PublishRequest& request) {
  untaken_bytes_ += to(target).publish(actor, request);
}

void RemoteBatches::give_back(std::unique_ptr<RemoteBatch> batch) {
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(batch));
}

RemoteBatches::RemoteBatches(Shard& shard, QueueShard& home, StoreShard& store)
    : shard_(shard), home_(home), store_(store), disk_timer_([this] { look_at_disk(); }) {}

bool RemoteBatches::held_up() const {
  return untaken_bytes_ > kUntakenBytesMax || store_.disk_is_behind();
}

void RemoteBatches::tell_of_room(ConnectionId id) {
  waiting_.push_back(id);
  // Other shards are waited for by what they take; the disk may meanwhile have caught up.
  if (untaken_bytes_ > kUntakenBytesMax || disk_timer_.scheduled()) return;
  disk_patience_ = shard_.steady_now().plus_ms(kDiskPatienceMs);
  shard_.timers().schedule(disk_timer_, shard_.steady_now().plus_ms(kDiskLookMs));
}

void RemoteBatches::look_at_disk() {
  if (store_.disk_is_behind() && shard_.steady_now() < disk_patience_) {
    shard_.timers().schedule(disk_timer_, shard_.steady_now().plus_ms(kDiskLookMs));
    return;
  }
  if (untaken_bytes_ <= kUntakenBytesMax / 2) let_go();
}

void RemoteBatches::taken(uint64_t bytes) {
  untaken_bytes_ -= bytes;
  if (waiting_.empty() || untaken_bytes_ > kUntakenBytesMax / 2 || disk_timer_.scheduled()) return;
  let_go();
}

void RemoteBatches::let_go() {
  std::vector<ConnectionId> waiting;
  waiting.swap(waiting_);
  for (ConnectionId id : waiting) {
    if (DeliverySink* sink = home_.find_sink(id)) sink->on_room();
  }
}

void send_batch(std::unique_ptr<RemoteBatch> batch) {
  Shard& shard = batch->target().shard();
  shard.post([owned = std::move(batch)]() mutable {
    owned->run();
    owned->target().impl().batches.give_back(std::move(owned));  // NOLINT(bugprone-use-after-move)
  });
}

void append_runs(std::vector<SettleRun>& out, ConsumerId consumer,
                 std::span<const Delivery> batch) {
  SettleRun* last = nullptr;
  for (const Delivery& d : batch) {
    const uint64_t bytes = d.record.body.size();
    if (last && last->lane == d.lane && last->counter == d.counter &&
        last->run.first.segment == d.position.segment &&
        last->run.first.ordinal + last->run.count == d.position.ordinal) {
      ++last->run.count;
      last->body_bytes += bytes;
      continue;
    }
    last = &out.emplace_back(SettleRun{{d.position, 1}, d.lane, d.counter, consumer, bytes});
  }
}

}  // namespace tarry
