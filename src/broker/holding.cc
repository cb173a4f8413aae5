#include "broker/holding.h"

#include "broker/core.h"
#include "broker/definition_codec.h"
#include "broker/desk.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry {

void add_holding_queue(Core& core, Vhost& vhost, Exchange& exchange, QueueId id,
                       DefinitionBatch& batch) {
  auto entry = std::make_shared<QueueEntry>();
  entry->durable = exchange.spec().durable;
  QueueIdentity identity;
  identity.vhost = vhost.name;
  identity.name = holding_name(exchange.name());
  identity.durable = entry->durable;
  identity.holds_for = exchange.name();
  QueueShard& home = *core.queue_shards[core.shard_index_of(id)];
  entry->handle = home.create(id, identity, QueueSettings{});
  if (entry->stored()) {
    batch.puts.emplace_back(definition::queue_key(vhost.name, identity.name),
                            definition::queue_value(*entry));
  }
  exchange.set_holding_queue(id);
  core.registry.add_queue(vhost, std::move(entry));
}

void end_holding_queue(Core& core, std::shared_ptr<QueueHandle> queue) {
  Shard& home = queue->shard();
  home.post([&core, queue = std::move(queue)] {
    ShardDesk* desk = core.desk();
    TARRY_INVARIANT(desk != nullptr);
    const QueueId id = queue->id;
    const bool durable = queue->identity.durable;
    queue->remove(false, false, desk->me(),
                  desk->expect([&core, queue, id, durable](const QueueReply&) {
                    // Behind what the queue itself has to do there.
                    if (!durable)
                      queue->shard().post([&core, id] { core.store.remove_queue_directory(id); });
                  }));
    if (!durable) return;
    { std::unique_lock whoever_removed_it_is_done(core.registry.mutex); }
    core.when_durable([&core, id] {
      core.store.remove_queue_directory(id);
      // After the directory: the store thread works in order.
      core.store.on_store_thread([all = &core.definitions, id] {
        all->write({{}, {definition::tombstone_key(id)}}, [] {});
      });
    });
  });
}

void link_holding_queues(Vhost& vhost) {
  for (const auto& [name, exchange] : vhost.exchanges) {
    if (!exchange->delays()) continue;
    if (auto entry = vhost.find_queue(holding_name(name)))
      exchange->set_holding_queue(entry->handle->id);
    else
      log_for("broker")->error(
          "exchange '{}' in vhost '{}' has lost its holding queue: it does not delay", name,
          vhost.name);
  }
}

}  // namespace tarry
